"""From a results folder to tidy frames: what was asked, what happened, what was read.

Each record is read once, however many ablations share its trial. A record that cannot be used is
named with its reason, and the rest goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.store.record import Reading, Record, RecordError
from ablations.store.results import Results
from analysis.names import printable

WAITING, UNREADABLE = "waiting", "unreadable"

CELL = ["ablation", "label", "across", "seed", "trial"]
OUTCOME = [*CELL, "outcome", "reason", "parameters", "flops_per_token", "owed"]
READING = [
    *CELL,
    "status",
    *("metric", "split", "unit", "value", "reason", "session", "against"),
    *("samples", "reference", "twin"),
    *("axes", "values", "at", "step"),
]


@dataclass(frozen=True)
class Loaded:
    """One picture of a results folder.

    `cells` has one row per planned cell with its outcome, `readings` one per reading of a cell;
    each coordinate of a reading is a column of its own.
    """

    root: Path
    plan: dict[str, Any]
    records: dict[str, Record]
    unreadable: dict[str, str]
    cells: pd.DataFrame
    readings: pd.DataFrame
    stale: frozenset[str] = frozenset()
    """Trials whose record was made by other code than the plan's."""

    @property
    def ablations(self) -> dict[str, dict[str, Any]]:
        return self.plan["ablations"]

    def done(self, ablation: str | None = None) -> tuple[int, int]:
        """Distinct trials that have a usable record, and distinct trials planned."""
        cells = self.cells if ablation is None else self.cells[self.cells["ablation"] == ablation]
        trials = set(cells["trial"])
        return len(trials & set(self.records)), len(trials)


def load(root: str | Path) -> Loaded:
    """Everything a results folder knows; a RecordError where there is no usable plan."""
    results = Results(root)
    if not results.root.is_dir():
        raise RecordError(
            f"no results folder {printable(str(root))!r}: run an ablation there first"
        )
    plan = printable(results.read_plan())
    _check(plan)
    records: dict[str, Record] = {}
    unreadable: dict[str, str] = {}
    outcomes: list[dict[str, Any]] = []
    readings: list[dict[str, Any]] = []
    for cell, measures in _cells(plan):
        trial = cell["trial"]
        if trial not in records and trial not in unreadable:
            try:
                record = _read(results, trial)
            except RecordError as error:
                unreadable[trial] = str(printable(str(error)))
            else:
                if record is not None:
                    records[trial] = record
        known = records.get(trial)
        outcomes.append({**cell, **_outcome(known, unreadable.get(trial), measures)})
        if known is not None:
            trunk = {**cell, "status": known.status}
            readings += [{**reading.at, **trunk, **_row(reading)} for reading in known.readings]
    coordinates = sorted({name for row in readings for name in row} - set(READING))
    return Loaded(
        root=results.root,
        plan=plan,
        records=records,
        unreadable=unreadable,
        cells=pd.DataFrame(outcomes, columns=OUTCOME),
        readings=pd.DataFrame(readings, columns=[*READING, *coordinates]),
        stale=_stale(plan, records),
    )


def _stale(plan: dict[str, Any], records: dict[str, Record]) -> frozenset[str]:
    wanted = {
        str(cell["trial"]): cell["code"]
        for ablation in plan["ablations"].values()
        for cell in ablation["cells"]
        if "code" in cell
    }
    return frozenset(
        trial
        for trial, record in records.items()
        if trial in wanted and record.env.get("code") != wanted[trial]
    )


def listed(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as plain dictionaries."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def crossing(across: dict[str, Any]) -> str:
    """Crossed factors in one canonical line: `data=3k, depth=2`; empty where nothing is crossed."""
    return ", ".join(f"{name}={across[name]}" for name in sorted(across))


def _check(plan: dict[str, Any]) -> None:
    """Say in one line what a plan lacks, before anything else trips over it."""
    try:
        for name, ablation in plan["ablations"].items():
            where = f"ablation {name!r}"
            for key in ("question", "task", "control", "cells", "metric"):
                ablation[key]
            where = f"the metric of ablation {name!r}"
            metric = ablation["metric"]
            metric["name"], metric["split"], metric["label"]
            if metric["better"] not in ("lower", "higher"):
                raise RecordError(f"plan.json: {where} is better neither 'lower' nor 'higher'")
            where = f"a cell of ablation {name!r}"
            for cell in ablation["cells"]:
                cell["label"], cell["trial"], hash(cell["seed"])
                (cell.get("across") or {}).items()
    except KeyError as error:
        where = "the plan" if error.args == ("ablations",) else where
        raise RecordError(f"plan.json: {where} lacks {error}") from None
    except (TypeError, AttributeError):
        raise RecordError("plan.json: not shaped like a plan") from None


def _cells(plan: dict[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    return [
        (
            {
                "ablation": name,
                "label": str(cell["label"]),
                "across": crossing(cell.get("across") or {}),
                "seed": cell["seed"],
                "trial": str(cell["trial"]),
            },
            cell.get("measures") or [],
        )
        for name, ablation in plan["ablations"].items()
        for cell in ablation["cells"]
    ]


def _read(results: Results, trial: str) -> Record | None:
    """A trial's record, or a RecordError for anything that would trip the analysis."""
    try:
        return results.read(trial)
    except (OSError, RecursionError) as error:
        raise RecordError(f"{trial}.json: cannot be read ({type(error).__name__})") from None


def _outcome(record: Record | None, fault: str | None, measures: list[str]) -> dict[str, Any]:
    if record is None:
        return {"outcome": UNREADABLE if fault else WAITING, "reason": fault, "owed": 0}
    return {
        "outcome": record.status,
        "reason": printable(record.reason),
        "parameters": record.parameters,
        "flops_per_token": record.flops_per_token,
        "owed": len(set(measures) - set(record.measures)) if record.status == "ok" else 0,
    }


def _row(reading: Reading) -> dict[str, Any]:
    texts = {name: printable(getattr(reading, name)) for name in ("metric", "unit", "reason")}
    return {**vars(reading), **texts, "step": reading.at.get("step")}
