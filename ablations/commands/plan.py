"""plan: what would run, with parameters, time and disk."""

from __future__ import annotations

import json
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
from ablations.commands.columns import print_columns
from ablations.commands.terminal import working
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
    from ablations.progress import roughly

    on = machine_of(options)
    with working(f"Comparing with {results.root}"):
        lacks = missing(plan, results, options.rerun)
        totals, rows = price(plan, results, lacks, on)
    if options.json:
        print(json.dumps({**totals, "notes": plan.notes, "variants": rows}, indent=1))
        return 0
    _print_table(rows)
    training = f"{roughly(totals['training'])} of training"
    if on.device.type != "cpu":
        training += f", {totals['device_hours']:,.3g} device-hours"
    training += f" on {on}"
    needs = {
        training: totals["training"],
        f"{roughly(totals['timing'])} of timing": totals["timing"],
    }
    rest = "the rest takes " + ", ".join(words for words, number in needs.items() if number)
    if not any(needs.values()):
        left = lacks.measure or lacks.untimed
        other = " else" if totals["unknown"] else ""
        rest = "only measures are left" if left else f"nothing{other} is left to run"
    print(f"{totals['trials']} trials, {totals['done']} done; {rest}")
    for note in plan.notes:
        print(note)
    if totals["unknown"]:
        why = "too large for this machine, or not yet run on such a device"
        print(f"Time unknown: {totals['unknown']} trials, {why}.")
    return 0


def price(
    plan: Plan, results: Results, lacks: Missing, on: Machine
) -> tuple[dict[str, Any], list[Any]]:
    """What the whole plan costs, and each variant."""
    from ablations.plan.estimate import rate_of, seconds_each, seconds_timing, side_by_side

    groups: dict[tuple[str, ...], list[Cell]] = {}  # by table, variant and levels: all seeds
    for word, table in plan.tables.items():
        for cell in table.cells:
            groups.setdefault((word, cell.label, *cell.across.values()), []).append(cell)
    took = seconds_each(lacks.train, plan, results, on.device, lambda: rate_of(on.device))
    each = {want.trial: seconds for want, seconds in zip(lacks.train, took, strict=True)}
    rows: list[dict[str, Any]] = []
    for (name, *arm), cells in groups.items():
        want = plan.wanted[cells[0].trial]
        trials = [cell.trial for cell in cells]
        rows.append(
            {
                "ablation": name,
                "variant": ":".join(arm),
                "control": cells[0].label == plan.tables[name].ablation.baseline,
                "parameters": want.parameters,
                "steps": want.config["train"]["steps"],
                "seconds_per_trial": next((each[t] for t in trials if t in each), None),
                "trials": trials,
                "left": sum(trial in each for trial in trials),
            }
        )
    training_time = side_by_side([s for s in each.values() if s is not None], on.at_once)
    timing_time = seconds_timing(plan, lacks)
    totals = {
        "trials": len(plan.wanted),
        "done": len(plan.wanted) - len(each),
        "unknown": list(each.values()).count(None),
        "seconds": training_time + timing_time,
        "training": training_time,
        "device_hours": sum(s for s in each.values() if s is not None) / 3600,
        "timing": timing_time,
    }
    return totals, rows


def _print_table(rows: list[dict[str, Any]]) -> None:
    lines = []
    for row in rows:
        seconds = "done" if not row["left"] else "unknown"
        if row["seconds_per_trial"] is not None:
            seconds = f"{row['seconds_per_trial']:,.0f}"
        lines.append(
            [
                row["ablation"],
                quoted(row["variant"]) + (" (control)" if row["control"] else ""),
                f"{row['parameters']:,}",
                f"{row['steps']:,}",
                seconds,
                str(len(row["trials"])),
            ]
        )
    print_columns(("question", "variant", *_COLUMNS), lines, right=_COLUMNS)
