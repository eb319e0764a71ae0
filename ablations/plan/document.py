"""The plan as a results folder keeps it: enough to read the results without the YAML."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.plan.merge import Cell
from ablations.plan.question import Ablation
from ablations.plan.wanted import Plan, measures_of
from ablations.store.frozen import freeze
from ablations.store.record import SCHEMA
from ablations.store.results import Results
from ablations.tasks.cache import load_task


def document(plan: Plan) -> dict[str, Any]:
    """What plan.json says of these ablations; enough to read the results without the YAML."""
    return {name: _entry(plan, *both) for name, both in plan.ablations.items()}


def _entry(plan: Plan, ablation: Ablation, cells: Sequence[Cell]) -> dict[str, Any]:
    metric = load_task(freeze(cells[0].config["task"])).metrics[ablation.metric]
    return {
        "question": ablation.question,
        "task": ablation.task,
        "control": ablation.control,
        "fixed": ablation.fixed,
        "moves": ablation.moves,
        "claims": ablation.claims,
        "overrides": [f"{path}={json.dumps(value)}" for path, value in plan.overrides.items()],
        "metric": {"name": ablation.metric, "split": "test", **vars(metric)},
        "fingerprint": _fingerprint(cells),
        "seeds": plan.seeds,
        "cells": [
            {
                "label": cell.label,
                "seed": cell.seed,
                "across": cell.across,
                "trial": cell.trial,
                "measures": measures_of(ablation, cell, plan.seeds),
                "code": plan.wanted[cell.trial].code,
                "work": plan.wanted[cell.trial].work,
            }
            for cell in cells
        ],
    }


def _fingerprint(cells: Sequence[Cell]) -> str:
    """One word for all that decides the numbers of an ablation's table but the seeds."""
    settings = {(cell.label, freeze(cell.across), cell.settings) for cell in cells}
    return hashlib.sha256(freeze(sorted(settings)).encode()).hexdigest()[:12]


def merge_into(results: Results, plan: Plan) -> None:
    """Write the plan beside what was planned here earlier.

    Ablations of other names stay. So do the cells of other seeds of an ablation that is otherwise
    the same; where anything else differs it is planned anew, for one table must not mix settings.
    """
    earlier = results.read_plan() if results.plan_file.exists() else {"ablations": {}}
    asked = json.loads(json.dumps(document(plan)))  # as it will be read
    try:
        before = dict(earlier["ablations"].items())
        now = {name: _unite(before.get(name, {}), entry) for name, entry in asked.items()}
    except (AttributeError, KeyError, TypeError):
        raise results.misshapen() from None
    head = {"schema": SCHEMA, "profile": plan.profile.name}
    merged = {**head, "ablations": {**before, **now}}
    if merged != earlier:
        results.write_plan(merged)


def _unite(earlier: Mapping[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """An entry of plan.json with the cells of both, if they differ in their seeds alone."""

    def rest(entry: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in entry.items() if key not in ("seeds", "cells")}

    def place(cell: Mapping[str, Any]) -> tuple[str, str]:
        return cell["label"], freeze(cell["across"])

    if rest(earlier) != rest(now):
        return now
    twins = {place(cell): cell for cell in now["cells"]}  # which another seed alone sets apart
    order = {each: index for index, each in enumerate(twins)}
    cells = {(*place(cell), cell["seed"]): cell for cell in now["cells"]}
    for cell in earlier["cells"]:
        # Its code and size are those of its twin: a record made by code of then is stale now.
        twin = twins[place(cell)]
        kept = {**cell, "code": twin["code"], "work": twin["work"]}
        cells.setdefault((*place(cell), cell["seed"]), kept)
    if len(cells) == len(now["cells"]):
        return now
    united = sorted(cells.values(), key=lambda cell: (order[place(cell)], cell["seed"]))
    return {**now, "seeds": sorted({cell["seed"] for cell in united}), "cells": united}
