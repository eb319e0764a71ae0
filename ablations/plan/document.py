"""The plan as a results folder keeps it: enough to read the results without the YAML.

A table is known by its experiment, profile and overrides. An experiment asked for with other
overrides, or at another profile, is another table beside the first. Asked again, its
table is written anew, and keeps the cells of seeds and arms that were asked for earlier and whose
settings are the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ablations.plan.wanted import Plan, PlannedTable, measures_of, metrics_of
from ablations.store.identity import canonical_json
from ablations.store.results import Results

FEW = 3  # a batch of fewer seeds gives no verdict, so seeds that are asked for later join it


def document(plan: Plan, profile: str | None = None) -> dict[str, Any]:
    """What plan.json says of these questions, in a folder that is mainly of this profile."""
    asked = [_entry(plan, table) for table in plan.tables.values()]
    return {title(entry, profile or plan.profile.name): entry for entry in asked}


def titles(plan: Plan, results: Results) -> dict[str, str]:
    """What a plan's tables are called in the plan of this folder, and their words."""
    main = results.read_plan()["profile"] if results.plan_file.exists() else None
    return dict(zip(document(plan, main), plan.tables, strict=True))


def title(entry: Mapping[str, Any], profile: str) -> str:
    """What a table is called: the question's name and what was set, as one would type it."""
    words = list(entry["overrides"])
    words += [f"profile={entry['profile']}"] if entry["profile"] != profile else []
    return f"{entry['name']} [{', '.join(words)}]" if words else entry["name"]


def _entry(plan: Plan, table: PlannedTable) -> dict[str, Any]:
    ablation, cells = table.ablation, table.cells
    metrics = metrics_of(ablation, cells)
    set_here = {path: json.dumps(value) for path, value in plan.overrides.items()}
    set_here |= {path: ",".join(levels) for path, levels in plan.factors.items()}
    order = {place: index for index, place in enumerate(_place(vars(cell)) for cell in cells)}
    seeds = sorted({cell.seed for cell in cells if cell.role == "report"})
    return {
        "name": table.question,
        "arms": table.arms,
        "question": ablation.question,
        "task": ablation.task,
        "baseline": ablation.baseline,
        "held_constant": ablation.held_constant,
        "changes": ablation.changes,
        "claims": [
            {
                **vars(claim),
                "predicts": [each.to_dict() for each in predicted if each.role == "predicts"],
                "require": [each.to_dict() for each in predicted if each.role == "requires"],
            }
            for claim, predicted in ablation.predictions
        ],
        "tuning": [asdict(choice) for choice in table.choices],
        "grid": dict(ablation.tune),
        "overrides": sorted(f"{path}={text}" for path, text in set_here.items()),
        "profile": plan.profile.name,
        "metric": {"name": ablation.metric, "split": "test", **metrics[ablation.metric]},
        "metrics": metrics,
        "seed_batches": [seeds] if seeds else [],
        "trials": [
            {
                "variant": cell.variant,
                "seed": cell.seed,
                "factors": cell.factors,
                "id": cell.id,
                "settings": cell.settings,
                "role": cell.role,
                "tuned": dict(cell.tuned),
                "sources": measures_of(table, cell),
                "work": plan.wanted[cell.id].work,
            }
            for cell in sorted(cells, key=lambda cell: (order[_place(vars(cell))], cell.seed))
        ],
    }


def merge_into(results: Results, plan: Plan) -> list[str]:
    """Write the plan beside what was planned in this folder earlier; what people should know."""
    is_first = not results.plan_file.exists()
    earlier: dict[str, Any] = {"profile": plan.profile.name, "experiments": {}}
    earlier = earlier if is_first else results.read_plan()
    asked = json.loads(json.dumps(document(plan, earlier["profile"])))  # as it will be read
    tables, notes = dict(earlier["experiments"]), []
    for (name, entry), table in zip(asked.items(), plan.tables.values(), strict=True):
        if name in tables:
            before = tables[name]
            entry = _with_earlier(entry, before, table)
            if gone := {c["id"] for c in before["trials"]} - {c["id"] for c in entry["trials"]}:
                notes.append(f"{name}: settings have changed; {len(gone)} earlier trials left it")
        tables[name] = entry
    merged = {**earlier, "experiments": tables}
    if is_first or merged != earlier:
        results.write_plan(merged)
    return notes


def _place(cell: Mapping[str, Any]) -> tuple[str, ...]:
    """Of a cell in its table, whatever its seed."""
    tried = canonical_json(cell["tuned"]) if cell["role"] == "tune" else ""
    return cell["variant"], canonical_json(cell["factors"]), cell["role"], tried


def _with_earlier(
    entry: dict[str, Any], before: Mapping[str, Any], table: PlannedTable
) -> dict[str, Any]:
    """An entry with the earlier cells that are the question's as it is now."""
    settings = {_place(vars(c)): c.settings for c in table.cells}
    order = {place: index for index, place in enumerate(settings)}
    asked = {(_place(cell), cell["seed"]) for cell in entry["trials"]}
    kept = [
        cell
        for cell in before["trials"]
        if settings.get(_place(cell)) == cell["settings"]
        and (_place(cell), cell["seed"]) not in asked
    ]
    cells = [*entry["trials"], *kept]
    cells.sort(key=lambda cell: (order[_place(cell)], cell["seed"]))
    is_same = all(settings.get(_place(c), c["settings"]) == c["settings"] for c in before["trials"])
    reported = {cell["seed"] for cell in cells if cell["role"] == "report"}
    batches = joined(before["seed_batches"] if is_same else [], reported)
    return {**entry, "trials": cells, "seed_batches": batches}


def joined(batches: Iterable[Sequence[int]], seeds: Iterable[int]) -> list[list[int]]:
    """The batches with these seeds: new ones form a batch of their own, unless the last one has
    too few for a verdict."""
    found = [list(batch) for batch in batches]
    new = sorted(set(seeds) - {seed for batch in found for seed in batch})
    if new and found and len(found[-1]) < FEW:
        found[-1] += new
    elif new:
        found.append(new)
    return found
