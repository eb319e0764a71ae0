"""plan: what would run, with parameters and time."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from ablations.commands.arguments import (
    Machine,
    as_json,
    machine,
    machine_of,
    plan_of,
    results_of,
    trials,
)
from ablations.commands.terminal import print_json, print_table, working
from ablations.store.words import quoted

if TYPE_CHECKING:
    from ablations.plan.merge import Cell
    from ablations.plan.missing import Missing
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results

_COLUMNS = ("parameters", "steps", "s/trial", "seeds")


def arguments(parser: ArgumentParser) -> None:
    trials(parser)
    machine(parser)
    as_json(parser)


def act(options: Namespace) -> int:
    plan, results = plan_of(options), results_of(options)
    from ablations.plan.missing import missing

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
    if totals["unknown"]:
        why = "too large for this machine, or not yet run on such a device"
        print(f"Time unknown: {totals['unknown']} trials, {why}.")
    is_measured = bool(lacks.measure or lacks.untimed)
    print(f"{totals['trials']} trials, {totals['done']} done; {_rest(totals, on, is_measured)}")
    return 0


def price(
    plan: Plan, results: Results, lacks: Missing, on: Machine
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What the whole plan costs, and each variant."""
    from ablations.plan.estimate import rate_of, seconds_each, seconds_timing, side_by_side

    took = seconds_each(lacks.train, plan, results, on.device, lambda: rate_of(on.device))
    each = {want.id: seconds for want, seconds in zip(lacks.train, took, strict=True)}
    groups: dict[tuple[str, ...], list[Cell]] = {}  # by experiment, variant and levels: all seeds
    for word, table in plan.tables.items():
        for cell in table.cells:
            groups.setdefault((word, cell.variant, *cell.factors.values()), []).append(cell)
    rows: list[dict[str, Any]] = []
    for (name, *variant), cells in groups.items():
        trials = [cell.id for cell in cells]
        want = plan.wanted[trials[0]]
        rows.append(
            {
                "experiment": name,
                "variant": ":".join(variant),
                "baseline": cells[0].variant == plan.tables[name].ablation.baseline,
                "parameters": want.parameters,
                "steps": want.config["train"]["steps"] if want.trained else 0,
                "seconds_per_trial": next((each[t] for t in trials if t in each), None),
                "trials": trials,
                "left": sum(trial in each for trial in trials),
            }
        )
    known = [seconds for seconds in each.values() if seconds is not None]
    training, timing = side_by_side(known, on.at_once), seconds_timing(plan, lacks)
    totals = {
        "trials": len(plan.wanted),
        "done": len(plan.wanted) - len(each),
        "unknown": len(each) - len(known),
        "seconds": training + timing,
        "training": training,
        "device_hours": sum(known) / 3600,
        "timing": timing,
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
    """What is left to do, and how long it takes."""
    from ablations.progress import roughly

    hours = f", {totals['device_hours']:,.3g} device-hours" * (on.device.type != "cpu")
    kinds = {"training": f" of training{hours} on {on}", "timing": " of benchmarks"}
    if parts := [roughly(totals[kind]) + words for kind, words in kinds.items() if totals[kind]]:
        return f"the rest takes {' and '.join(parts)}"
    if is_measured:
        return "only measurements are left"
    return f"nothing{' else' * bool(totals['unknown'])} is left to run"
