"""From a results folder to tidy frames: what was asked, what happened, what was read.

A record that cannot be used is named with its reason, and the rest goes on.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ablations.store.record import TRAINING, Reading, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import Stamp, changed
from analysis.environment import session_of
from analysis.names import printable

WAITING, UNREADABLE, FINE = "waiting", "unreadable", "ok"

CELL = ["ablation", "label", "across", "seed", "trial"]
OUTCOME = [*CELL, "settings", "outcome", "reason", "parameters", "flops_per_token", "owed"]
OUTCOME += ["numerics"]
PLAIN = [
    *("measure", "metric", "split", "unit", "value", "reason", "session", "against"),
    *("samples", "reference", "twin", "axes", "values", "at"),
]
"""Fields of a reading that are columns as they are."""
READING = [*CELL, "status", "settings", *PLAIN, "step", "place"]

ScoreKey = tuple[str, str, str, str, str | None, str]
"""An ablation, a label, its crossing, a metric, a split and a place."""


@dataclass(frozen=True)
class Loaded:
    """One picture of a results folder.

    `cells` has one row per planned cell with its outcome, `readings` one per reading of a cell;
    each coordinate of a reading is a column of its own, `place` all but the step in one line.
    """

    root: Path
    plan: dict[str, Any]
    records: dict[str, Record]
    unreadable: dict[str, str]
    cells: pd.DataFrame
    readings: pd.DataFrame
    stale: frozenset[str] = frozenset()
    """Trials whose record was made by other code than is here."""

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

    @cached_property
    def trials(self) -> dict[tuple[str, str, str], dict[int, str]]:
        """Ablation, label and crossing → seed → trial, of everything that is planned."""
        found: dict[tuple[str, str, str], dict[int, str]] = {}
        for *arm, seed, trial in self.cells[CELL].itertuples(index=False, name=None):
            found.setdefault((arm[0], arm[1], arm[2]), {})[seed] = trial
        return found

    @cached_property
    def outcomes(self) -> dict[tuple[str, str, str], dict[int, str]]:
        """Ablation, label and crossing → seed → how its trial ended, of those that have."""
        found: dict[tuple[str, str, str], dict[int, str]] = {arm: {} for arm in self.trials}
        columns = self.cells[[*CELL[:4], "outcome"]]
        for *arm, seed, outcome in columns.itertuples(index=False, name=None):
            if outcome not in (WAITING, UNREADABLE):
                found[arm[0], arm[1], arm[2]][seed] = outcome
        return found

    @cached_property
    def rows(self) -> dict[tuple[str, str], Any]:
        """Ablation and metric → the positions of its readings: no question scans all of them."""
        return dict(self.readings.groupby(["ablation", "metric"]).indices)

    @cached_property
    def timings(self) -> list[list[dict[str, Any]]]:
        """The readings of each timed cell and place, one for each process of one session."""
        controls = {
            (name, across, seed): trial
            for (name, label, across), own in self.trials.items()
            for seed, trial in own.items()
            if label == self.ablations[name]["control"]
        }
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        frame = self.readings
        for row in listed(frame[frame["session"].notna() & frame["value"].isna()]):
            control = controls.get((row["ablation"], row["across"], row["seed"]))
            if isinstance(row["against"], str) and row["against"] != control:
                continue  # timed beside the control of another question
            key = *(row[name] for name in CELL), row["metric"], row["place"]
            groups.setdefault((*key, session_of(row["session"])), []).append(row)
        return list(groups.values())

    @cached_property
    def scores(self) -> dict[ScoreKey, dict[int, dict[float, float]]]:
        """What was measured where → seed → step → value, of trials that ended well.

        A value that was taken at no step stands at infinity; one that is null is NaN.
        """
        frame = self.readings
        single = frame["session"].isna() & frame["values"].isna() & (frame["status"] == FINE)
        columns = [*CELL[:3], "metric", "split", "place", "seed", "step", "value"]
        found: dict[ScoreKey, dict[int, dict[float, float]]] = {}
        for *key, seed, step, value in frame.loc[single, columns].itertuples(
            index=False, name=None
        ):
            key[4] = key[4] if isinstance(key[4], str) else None
            taken = found.setdefault((key[0], key[1], key[2], key[3], key[4], key[5]), {})
            taken.setdefault(seed, {})[math.inf if step != step else step] = value
        return found


def load(root: str | Path) -> Loaded:
    """Everything a results folder knows; a RecordError where there is no usable plan."""
    results = Results(root)
    if not results.root.is_dir():
        raise RecordError(
            f"no results folder {printable(str(root))!r}: run an ablation there first"
        )
    plan = printable(results.read_plan())
    records: dict[str, Record] = {}
    unreadable: dict[str, str] = {}
    for trial in dict.fromkeys(cell["trial"] for cell, _ in _cells(plan)):
        try:
            record = results.read(trial)
        except RecordError as error:
            unreadable[trial] = str(printable(str(error)))
        except (OSError, RecursionError) as error:
            unreadable[trial] = f"{trial}.json: cannot be read ({type(error).__name__})"
        else:
            if record is not None:
                records[trial] = record
    return picture(results.root, plan, records, unreadable)


def picture(
    root: Path,
    plan: dict[str, Any],
    records: dict[str, Record],
    unreadable: Mapping[str, str] | None = None,
) -> Loaded:
    """A plan and its records as frames."""
    faults = dict(unreadable or {})
    is_changed = _remembered()
    outcomes: list[dict[str, Any]] = []
    taken: list[tuple[dict[str, Any], Record, list[Reading]]] = []
    stale: set[str] = set()
    for cell, measures in _cells(plan):
        held = records.get(cell["trial"])
        fault = faults.get(cell["trial"])
        if held is not None:
            made_by = [held.env.get("code") or {}, *(held.measures.get(m, {}) for m in measures)]
            if any(map(is_changed, made_by)):
                stale.add(cell["trial"])
            fault = _mismatch(cell, held)
        known = None if fault else held
        outcomes.append({**cell, **_outcome(known, fault, measures)})
        if known is not None:
            asked = (TRAINING, *measures)  # not what another table asks for
            taken.append((cell, known, [r for r in known.readings if r.measure in asked]))
    return Loaded(
        root=root,
        plan=plan,
        records=records,
        unreadable=faults,
        cells=pd.DataFrame(outcomes, columns=OUTCOME),
        readings=_tidy(_of_one_version(taken, is_changed)),
        stale=frozenset(stale),
    )


def _cells(plan: dict[str, Any]) -> list[tuple[dict[str, Any], list[str]]]:
    """What is reported: a cell as the frames have it, and the measures it is asked for."""
    return [
        (
            {
                **{name: cell[name] for name in ("label", "seed", "trial", "settings")},
                **{"ablation": name, "across": crossing(cell["across"])},
            },
            cell["measures"],
        )
        for name, entry in plan["ablations"].items()
        for cell in entry["cells"]
        if cell["role"] == "report"
    ]


def _mismatch(cell: dict[str, Any], record: Record) -> str | None:
    """Why a record cannot fill this cell: each says of itself what it is."""
    if record.trial != cell["trial"]:
        return f"its record is of trial {record.trial}"
    if record.config.get("seed") != cell["seed"]:
        return f"its record is of seed {record.config.get('seed')}, the plan asks for another"
    if record.settings != cell["settings"]:
        return "its record has other settings than the plan asks for"
    return None


def _outcome(record: Record | None, fault: str | None, measures: list[str]) -> dict[str, Any]:
    if record is None:
        return {"outcome": UNREADABLE if fault else WAITING, "reason": fault, "owed": 0}
    return {
        "outcome": record.status,
        "reason": printable(record.reason),
        "parameters": record.parameters,
        "flops_per_token": record.flops_per_token,
        "owed": len(set(measures) - set(record.measures)) if record.status == FINE else 0,
        "numerics": printable(record.env.get("numerics")),
    }


def _of_one_version(
    taken: list[tuple[dict[str, Any], Record, list[Reading]]], is_changed: Callable[[Stamp], bool]
) -> list[tuple[dict[str, Any], Record, list[Reading]]]:
    """In each ablation, the readings of every measure that one version of the code made."""
    stamps: dict[tuple[str, str], dict[str, Stamp]] = {}
    for cell, record, readings in taken:
        for measure in {reading.measure for reading in readings}:
            made_by = {**(record.env.get("code") or {}), **record.measures.get(measure, {})}
            stamps.setdefault((cell["ablation"], measure), {})[cell["trial"]] = made_by
    wrong = {
        (*key, trial)
        for key, made_by in stamps.items()
        for trial in other_code(made_by, is_changed)
    }
    return [
        (
            cell,
            record,
            [r for r in own if (cell["ablation"], r.measure, cell["trial"]) not in wrong],
        )
        for cell, record, own in taken
    ]


def other_code(
    stamps: Mapping[str, Stamp], is_changed: Callable[[Stamp], Any] = changed
) -> set[str]:
    """The trials whose stamp contradicts that of others, so that they cannot stand beside them.

    Two stamps contradict each other where they have one file with two digests. Then those that are
    of the code here count; where none is, the version that most of them have.
    """
    digests: dict[str, set[str]] = {}
    for made_by in stamps.values():
        for file, digest in made_by.items():
            digests.setdefault(file, set()).add(digest)
    disputed = sorted(file for file, found in digests.items() if len(found) > 1)
    if not disputed:
        return set()
    of_now = {trial for trial, made_by in stamps.items() if not is_changed(made_by)}
    if of_now:
        return stamps.keys() - of_now
    versions = {trial: tuple(map(made_by.get, disputed)) for trial, made_by in stamps.items()}
    most, _ = Counter(versions.values()).most_common(1)[0]
    return {trial for trial, version in versions.items() if version != most}


def _remembered() -> Callable[[Stamp], bool]:
    """Whether the code of a stamp has changed, looked up once a stamp: records share them."""
    look_up = cache(lambda key: bool(changed(dict(key))))
    return lambda made_by: look_up(frozenset(made_by.items()))


def _tidy(taken: list[tuple[dict[str, Any], Record, list[Reading]]]) -> pd.DataFrame:
    """A row a reading; filled column by column, for there are hundreds of thousands."""
    readings = [reading for _, _, own in taken for reading in own]
    columns: dict[str, Any] = {
        name: [getattr(reading, name) for reading in readings] for name in PLAIN
    }
    shown = cache(printable)  # each text once
    for name in ("metric", "unit", "reason"):
        columns[name] = list(map(shown, columns[name]))
    columns["step"] = np.array([at.get("step", math.nan) for at in columns["at"]], dtype=float)
    columns["place"] = [place(at) for at in columns["at"]]
    columns["value"] = np.array(columns["value"], dtype=float)
    for row, at in enumerate(columns["at"]):
        for name, value in at.items():
            if name not in READING:
                columns.setdefault(name, [math.nan] * len(readings))[row] = value
    cells = pd.DataFrame(
        [{**cell, "status": record.status} for cell, record, _ in taken],
        columns=[*CELL, "settings", "status"],
    )
    repeated = np.repeat(np.arange(len(taken)), [len(own) for _, _, own in taken])
    whose = cells.take(repeated).reset_index(drop=True)
    frame = pd.concat([whose, pd.DataFrame(columns)], axis=1)
    return frame[[*READING, *sorted(set(columns) - set(READING))]]


def place(at: Mapping[str, Any]) -> str:
    """Coordinates but the step in one canonical line: `batch 64, length 16`."""
    if not at or (len(at) == 1 and "step" in at):  # most of them
        return ""
    told = {k: v if isinstance(v, str) else f"{v:.12g}" for k, v in at.items() if k != "step"}
    return ", ".join(f"{name} {told[name]}" for name in sorted(told))


def crossing(across: Mapping[str, str]) -> str:
    """Crossed factors in one canonical line: `data=3k, depth=2`; empty where nothing is crossed."""
    return ", ".join(f"{name}={across[name]}" for name in sorted(across))


def listed(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows as plain dictionaries."""
    names = [str(name) for name in frame.columns]
    columns = (frame[name].tolist() for name in frame.columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
