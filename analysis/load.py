"""From a results folder to tidy frames: what was asked, what happened, what was read.

Each record is read once, however many ablations share its trial. A record that cannot be used is
named with its reason, and the rest goes on.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from ablations.store.frozen import freeze
from ablations.store.record import TRAINING, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import Stamp, changed
from analysis.names import printable
from analysis.tidy import CELL as CELL
from analysis.tidy import READING as READING
from analysis.tidy import CellReadings, lay_out
from analysis.versions import other_code

WAITING, UNREADABLE = "waiting", "unreadable"
RUNNER_UP = "runner-up"

OUTCOME = [*CELL, "settings", "outcome", "reason", "parameters", "flops_per_token", "owed"]
OUTCOME += ["numerics"]


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
    """Trials whose record was made by other code than is here."""
    kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """What others have looked up in it once, by what it is."""

    @cached_property
    def ablations(self) -> dict[str, dict[str, Any]]:
        """The tables that report something; the others only choose among settings."""
        return {
            name: entry
            for name, entry in self.plan["ablations"].items()
            if any(cell["role"] == "report" for cell in entry["cells"]) or not entry["cells"]
        }

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
    with _uncollected():
        return _load(results)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Nothing that is read is garbage: looking for some among millions would double the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _load(results: Results) -> Loaded:
    plan = printable(results.read_plan())
    records: dict[str, Record] = {}
    unreadable: dict[str, str] = {}
    for trial in dict.fromkeys(cell["trial"] for cell, _ in _cells(plan, ("report", RUNNER_UP))):
        try:
            record = _read(results, trial)
        except RecordError as error:
            unreadable[trial] = str(printable(str(error)))
        else:
            if record is not None:
                records[trial] = record
    return _picture(results.root, plan, records, unreadable)


def runners_up(loaded: Loaded, ablation: str) -> list[str]:
    """The variants of a table for which another setting has tuned as well."""
    cells = loaded.ablations[ablation]["cells"]
    return list(dict.fromkeys(cell["label"] for cell in cells if cell["role"] == RUNNER_UP))


def with_runner_up(loaded: Loaded, ablation: str, label: str) -> Loaded:
    """One table of the folder, as if tuning had chosen the other setting for this variant."""
    entry = loaded.ablations[ablation]
    own = [cell for cell in entry["cells"] if cell["label"] == label]
    places = {freeze(cell["across"]) for cell in own if cell["role"] == RUNNER_UP}
    others = [c for c in entry["cells"] if c["label"] != label or freeze(c["across"]) not in places]
    cells = others + [{**cell, "role": "report"} for cell in own if cell["role"] == RUNNER_UP]
    plan = {**loaded.plan, "ablations": {ablation: {**entry, "cells": cells}}}
    return _picture(loaded.root, plan, loaded.records, loaded.unreadable)


def _picture(
    root: Path, plan: dict[str, Any], records: dict[str, Record], unreadable: dict[str, str]
) -> Loaded:
    outcomes: list[dict[str, Any]] = []
    taken: list[CellReadings] = []
    stale: set[str] = set()
    is_changed = _remembered(changed)
    for cell, measures in _cells(plan):
        held = records.get(cell["trial"])
        known, fault = held, unreadable.get(cell["trial"])
        if held is not None:
            made_by = [held.env.get("code") or {}, *(held.measures.get(m, {}) for m in measures)]
            if any(map(is_changed, made_by)):
                stale.add(cell["trial"])
            if fault := _mismatch(cell, held):
                known = None
        outcomes.append({**cell, **_outcome(known, fault, measures)})
        if known is not None:
            asked = (TRAINING, *measures)  # not what another table asks for
            own = [reading for reading in known.readings if reading.measure in asked]
            taken.append(CellReadings(cell, known.status, own))
    return Loaded(
        root=root,
        plan=plan,
        records=records,
        unreadable=unreadable,
        cells=pd.DataFrame(outcomes, columns=OUTCOME),
        readings=lay_out(_of_one_version(taken, records, is_changed)),
        stale=frozenset(stale),
    )


def _mismatch(cell: dict[str, Any], record: Record) -> str | None:
    """Why a record cannot fill this cell: each says of itself what it is."""
    if record.config.get("seed") != cell["seed"]:
        return f"its record is of seed {record.config.get('seed')}, the plan asks for another"
    if record.settings != cell["settings"]:
        return "its record has other settings than the plan asks for"
    return None


def _of_one_version(
    taken: list[CellReadings], records: dict[str, Record], is_changed: Callable[[Stamp], bool]
) -> list[CellReadings]:
    """In each ablation, the readings of every measure that one version of the code has made:
    trained and taken."""
    stamps: dict[tuple[str, str], dict[str, Stamp]] = {}
    for each in taken:
        trial = each.cell["trial"]
        record = records[trial]
        for measure in {reading.measure for reading in each.readings}:
            made_by = {**(record.env.get("code") or {}), **record.measures.get(measure, {})}
            stamps.setdefault((each.cell["ablation"], measure), {})[trial] = made_by
    left_out = {key: other_code(made_by, is_changed) for key, made_by in stamps.items()}
    found = []
    for each in taken:
        name, trial = each.cell["ablation"], each.cell["trial"]
        wrong = {r.measure for r in each.readings if trial in left_out[name, r.measure]}
        own = [reading for reading in each.readings if reading.measure not in wrong]
        found.append(each._replace(readings=own) if wrong else each)
    return found


def _remembered(is_changed: Callable[[Stamp], Any]) -> Callable[[Stamp], bool]:
    """Each stamp looked up once: records share them, and every file of one is on disk."""
    known: dict[frozenset[tuple[str, str]], bool] = {}

    def look_up(made_by: Stamp) -> bool:
        key = frozenset(made_by.items())
        if key not in known:
            known[key] = bool(is_changed(made_by))
        return known[key]

    return look_up


def listed(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as plain dictionaries."""
    names = [str(name) for name in frame.columns]
    columns = (frame[name].tolist() for name in frame.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def crossing(across: dict[str, Any]) -> str:
    """Crossed factors in one canonical line: `data=3k, depth=2`; empty where nothing is crossed."""
    return ", ".join(f"{name}={across[name]}" for name in sorted(across))


def _cells(
    plan: dict[str, Any], roles: Collection[str] = ("report",)
) -> list[tuple[dict[str, Any], list[str]]]:
    return [
        (
            {
                "ablation": name,
                "label": cell["label"],
                "across": crossing(cell["across"]),
                "seed": cell["seed"],
                "trial": cell["trial"],
                "settings": cell["settings"],
            },
            cell["measures"],
        )
        for name, ablation in plan["ablations"].items()
        for cell in ablation["cells"]
        if cell["role"] in roles
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
        "numerics": printable(record.env.get("numerics")),
    }
