"""The plan as a results folder keeps it: enough to read the results without the YAML.

A question asked with other overrides, or at another profile, is another table. It stands beside the
first one under a name that tells what was set; nothing takes the place of what was planned before.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from ablations.plan.wanted import Plan, PlannedTable, measures_of, metrics_of
from ablations.store.frozen import freeze
from ablations.store.results import Results


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
    words += [entry["arms"]] if entry["arms"] != "fixed" else []
    return f"{entry['name']} [{', '.join(words)}]" if words else entry["name"]


def _entry(plan: Plan, table: PlannedTable) -> dict[str, Any]:
    ablation, cells = table.ablation, table.cells
    metrics = metrics_of(ablation, cells)
    set_here = {path: json.dumps(value) for path, value in plan.overrides.items()}
    set_here |= {path: ",".join(levels) for path, levels in plan.factors.items()}
    order = {place: index for index, place in enumerate(_place(vars(cell)) for cell in cells)}
    return {
        "name": table.question,
        "arms": table.arms,
        "question": ablation.question,
        "task": ablation.task,
        "control": ablation.control,
        "fixed": ablation.fixed,
        "moves": ablation.moves,
        "claims": [
            {**vars(claim), "predicts": [each.to_dict() for each in predicted]}
            for claim, predicted in ablation.predictions
            if table.is_alone or predicted[0].arms == table.arms
        ],
        "declared": len(ablation.predictions),
        "tuning": [asdict(choice) for choice in table.choices],
        "grid": dict(ablation.tune),
        "paces": [asdict(pace) for pace in table.paces],
        "overrides": sorted(f"{path}={text}" for path, text in set_here.items()),
        "profile": plan.profile.name,
        "metric": {"name": ablation.metric, "split": "test", **metrics[ablation.metric]},
        "metrics": metrics,
        "fingerprint": _fingerprint([vars(cell) for cell in cells]),
        "seeds_from": ablation.seeds_from,
        "seeds": sorted({cell.seed for cell in cells}),
        "left_out": sorted(map(list, {(*_place(vars(c)), c.settings) for c in table.left_out})),
        "cells": [
            {
                "label": cell.label,
                "seed": cell.seed,
                "across": cell.across,
                "trial": cell.trial,
                "settings": cell.settings,
                "role": cell.role,
                "tuned": dict(cell.tuned),
                "measures": measures_of(table, cell),
                "work": plan.wanted[cell.trial].work,
            }
            for cell in sorted(cells, key=lambda cell: (order[_place(vars(cell))], cell.seed))
        ],
    }


def _fingerprint(cells: Sequence[Mapping[str, Any]]) -> str:
    """One word for all that decides the numbers of an ablation's table but the seeds."""
    settings = {
        (cell["label"], freeze(cell["across"]), cell["role"], cell["settings"]) for cell in cells
    }
    return hashlib.sha256(freeze(sorted(settings)).encode()).hexdigest()[:12]


def merge_into(results: Results, plan: Plan) -> list[str]:
    """Write the plan beside what was planned here earlier; what people should know of it.

    Seeds that are asked later join those of the same settings. Where settings of one name differ,
    since its file, its data or a default has changed, the earlier table is kept under another.
    """
    is_first = not results.plan_file.exists()
    earlier: dict[str, Any] = {"profile": plan.profile.name, "ablations": {}}
    earlier = earlier if is_first else results.read_plan()
    asked = json.loads(json.dumps(document(plan, earlier["profile"])))  # as it will be read
    tables = dict(earlier["ablations"])
    notes = []
    for name, entry in asked.items():
        before = tables.get(name)
        if before is not None and not _holds_all(entry, before):
            kept = f"{name} @{before['fingerprint'][:6]}"
            tables[kept] = _unite(tables[kept], before) if kept in tables else before
            notes.append(f"{name}: asked differently before; that table is kept as '{kept}'")
        # One that was kept earlier may be what is asked now; or the one before has some of it.
        alike = [key for key in tables if key == name or key.startswith(f"{name} @")]
        for key in [key for key in alike if _is_same(tables[key], entry)]:
            entry = _unite(tables[key], entry)
            if key != name and _holds_all(entry, tables[key]):
                del tables[key]
        tables[name] = entry
        if entry["arms"] == "tuned":  # which decides what an earlier table was not tuned for
            plain = title({**entry, "arms": "fixed"}, earlier["profile"])
            if plain in tables and plain not in asked:
                decided = {claim["id"] for claim in entry["claims"]}
                left = [c for c in tables[plain]["claims"] if c["id"] not in decided]
                tables[plain] = {**tables[plain], "claims": left}
    merged = {**earlier, "ablations": tables}
    if is_first or merged != earlier:
        results.write_plan(merged)
    return notes


def _place(cell: Mapping[str, Any]) -> tuple[str, ...]:
    tried = freeze(cell["tuned"]) if cell["role"] == "tune" else ""
    return cell["label"], freeze(cell["across"]), cell["role"], tried


def _holds_all(entry: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Whether nothing of the earlier table would be lost in this one."""
    places = {_place(cell) for cell in entry["cells"]}
    return _is_same(earlier, entry) and all(
        _place(cell) in places or _is_left_out(entry, cell) for cell in earlier["cells"]
    )


def _is_left_out(entry: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    """Whether a cell is the question's as it is now, though not asked for this time."""
    return [*_place(cell), cell["settings"]] in entry["left_out"]


def _is_same(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether one table can hold both: one control, one score, and the same settings."""
    settings = {_place(cell): cell["settings"] for cell in earlier["cells"]}
    fits = all(settings.get(_place(c), c["settings"]) == c["settings"] for c in now["cells"])
    return fits and all(earlier[key] == now[key] for key in ("task", "control", "metric"))


def _unite(earlier: Mapping[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """An entry with the cells of both."""
    twins = {_place(cell): cell for cell in now["cells"]}  # which another seed alone sets apart
    order = {each: index for index, each in enumerate(twins)}
    cells = {(*_place(cell), cell["seed"]): cell for cell in now["cells"]}
    for cell in earlier["cells"]:
        if _place(cell) in twins:
            kept = {**cell, "work": twins[_place(cell)]["work"]}
            cells.setdefault((*_place(cell), cell["seed"]), kept)
        elif _is_left_out(now, cell):
            order.setdefault(_place(cell), len(order))
            cells.setdefault((*_place(cell), cell["seed"]), dict(cell))
    united = sorted(cells.values(), key=lambda cell: (order[_place(cell)], cell["seed"]))
    seeds = sorted({cell["seed"] for cell in united})
    return {**now, "seeds": seeds, "cells": united, "fingerprint": _fingerprint(united)}
