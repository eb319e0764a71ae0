"""plan: what would run, with parameters and time."""

from __future__ import annotations

from argparse import Namespace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import Machine, machine_of, plan_of, results_of
from ablations.commands.terminal import print_json, print_table, working
from ablations.store.words import quoted

if TYPE_CHECKING:
    from ablations.expand import Trial
    from ablations.missing import Missing
    from ablations.plan import Plan
    from ablations.store.results import Results

_COLUMNS = ("parameters", "steps", "s/trial", "seeds")


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.estimate import UTILISATION
    from ablations.missing import missing

    on = machine_of(options)
    with working(f"Comparing with {results.root}"):
        lacks = missing(plan, results, options.rerun)
        totals, rows = price(plan, results, lacks, on)
    if options.json:
        print_json({**totals, "notes": plan.notes, "variants": rows})
        return 0
    print_table(("experiment", "variant", *_COLUMNS), list(map(_line, rows)), right=_COLUMNS)
    print()
    for note in plan.notes:
        print(note)
    if hours := totals["projected"]:
        low, high = (f"{100 * share:.0f}" for share in UTILISATION)
        print(f"{totals['trials']} trials, {totals['done']} done; this machine has no accelerator.")
        print(
            f"Projected from counted work at {low} to {high} % of the published peak, not measured:"
        )
        for name, (least, most) in hours.items():
            print(f"{name:>9}  {least:,.3g} to {most:,.3g} device-hours")
        return 0
    if totals["unknown"]:
        why = "too large for this machine, or not yet run on such a device"
        print(f"Time unknown: {totals['unknown']} trials, {why}.")
    is_measured = bool(lacks.measure or lacks.untimed)
    print(f"{totals['trials']} trials, {totals['done']} done; {_rest(totals, on, is_measured)}")
    return 0


def price(
    plan: Plan, results: Results, lacks: Missing, on: Machine
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The totals of a plan, and a row for each variant."""
    from ablations.estimate import (
        projected_hours,
        rate_of,
        seconds_each,
        seconds_timing,
        side_by_side,
    )

    is_elsewhere = plan.profile.name == "gpu" and on.device.type == "cpu"

    def rate(trial: Trial) -> float | None:
        return None if is_elsewhere else rate_of(on.device, trial)

    took = seconds_each(lacks.train, plan, results, on.device, rate)
    each = {trial.id: seconds for trial, seconds in zip(lacks.train, took, strict=True)}
    rows: list[dict[str, Any]] = []
    for name, expanded in plan.experiments.items():
        for variant, seeds in groupby(expanded.trials, key=lambda trial: trial.place):
            first, *others = seeds
            trials = [first.id, *(trial.id for trial in others)]
            rows.append(
                {
                    "experiment": name,
                    "variant": variant,
                    "baseline": first.variant == expanded.experiment.baseline,
                    "parameters": first.parameters,
                    "steps": first.config["train"]["steps"] if first.trained else 0,
                    "seconds_per_trial": next((each[t] for t in trials if t in each), None),
                    "trials": trials,
                    "left": sum(trial in each for trial in trials),
                }
            )
    known = [seconds for seconds in each.values() if seconds is not None]
    training = side_by_side(known, on.at_once)
    timing = seconds_timing(plan, lacks)
    totals = {
        "trials": len(plan.trials),
        "done": len(plan.trials) - len(each),
        "unknown": len(each) - len(known),
        "seconds": training + timing,
        "training": training,
        "device_hours": sum(known) / 3600,
        "timing": timing,
        "projected": projected_hours(lacks.train) if is_elsewhere else {},
    }
    return totals, rows


def _line(row: dict[str, Any]) -> list[str]:
    seconds = "done" if not row["left"] else "unknown"
    if (took := row["seconds_per_trial"]) is not None:
        seconds = f"{took:,.0f}" if took >= 1 else "< 1"
    return [
        row["experiment"],
        quoted(row["variant"]) + (" (baseline)" if row["baseline"] else ""),
        f"{row['parameters']:,}",
        f"{row['steps']:,}" if row["steps"] else "untrained",
        seconds,
        str(len(row["trials"])),
    ]


def _rest(totals: dict[str, Any], on: Machine, is_measured: bool) -> str:
    """The work that is left, and its time, in words."""
    from ablations.progress import roughly

    hours = f", {totals['device_hours']:,.3g} device-hours" * (on.device.type != "cpu")
    kinds = {"training": f" of training{hours} on {on}", "timing": " of benchmarks"}
    if parts := [roughly(totals[kind]) + words for kind, words in kinds.items() if totals[kind]]:
        return f"the rest takes {' and '.join(parts)}"
    if is_measured:
        return "only measurements are left"
    return f"nothing{' else' * bool(totals['unknown'])} is left to run"
