"""Read a results folder into two tidy frames: a row for each planned trial or measurement.

A record that cannot be used is reported with the reason, and the others are used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ablations.store.record import TRAINING, Measurement, Record, final, is_stale
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import Stamp, changed
from analysis.wording import printable, title_of

WAITING, UNREADABLE, FINE = "waiting", "unreadable", "ok"

Row = dict[str, Any]
Variant = tuple[str, str, str]
"""Its experiment, its name, and the levels of the factors in one line."""
VARIANT = ["experiment", "variant", "factors"]
TRIAL = [*VARIANT, "seed", "trial"]
OUTCOME = [*TRIAL, "settings", "outcome", "reason", "parameters", "flops_per_token", "missing"]
OUTCOME += ["numerics"]
PLAIN = [
    "source", "metric", "split", "unit", "value", "reason", "session", "baseline_trial",
    "samples", "baseline_samples", "baseline_again", "axes", "values", "coordinates",
]  # fmt: skip
"""Fields of a measurement that become columns; of `baseline`, that is `baseline_trial`."""
COLUMNS = [*TRIAL, "status", "settings", *PLAIN, "step", "where"]


@dataclass(frozen=True)
class Loaded:
    """The content of a results folder.

    `trials` has a row for each planned trial with its outcome, `measurements` one for each
    measurement. Each coordinate has a column; `where` holds all but the step in one line.
    """

    root: Path
    plan: dict[str, Any]
    records: dict[str, Record]
    unreadable: dict[str, str]
    trials: pd.DataFrame
    measurements: pd.DataFrame
    final: pd.DataFrame
    """The last value of each trial, metric and place; times and arrays are left out."""
    stale: frozenset[str] = frozenset()
    """Trials whose record was made by other code than the present."""

    @cached_property
    def experiments(self) -> dict[str, dict[str, Any]]:
        """Name → what the plan says of an experiment."""
        return dict(self.plan["experiments"])

    def title(self, experiment: str, metric: str) -> str:
        """The name of a metric in a sentence or on an axis."""
        return title_of(metric, self.experiments[experiment]["metrics"])

    def done(self, experiment: str | None = None) -> tuple[int, int]:
        """Distinct trials that have a usable record, and distinct trials planned."""
        trials = self.trials
        trials = trials if experiment is None else trials[trials["experiment"] == experiment]
        ids = set(trials["trial"])
        return len(ids & set(self.records)), len(ids)

    def passes(self, experiments: Collection[str] | None = None) -> tuple[int, int]:
        """Complete passes and planned passes; a pass is one seed of all that is trained.

        What is only counted or probed may have more seeds; it counts where nothing is trained.
        """
        trials = self.trials
        if experiments is not None:
            trials = trials[trials["experiment"].isin(experiments)]
        planned = [trial for entry in self.experiments.values() for trial in entry["trials"]]
        is_trained = trials["trial"].isin([trial["id"] for trial in planned if trial["work"]])
        trials = trials[is_trained] if is_trained.any() else trials
        rank = trials.groupby("experiment")["seed"].transform(lambda seeds: pd.factorize(seeds)[0])
        is_open = trials["outcome"].isin((WAITING, UNREADABLE)).groupby(rank).any().sort_index()
        return int((~is_open.cummax().astype(bool)).sum()), len(is_open)

    @cached_property
    def ids(self) -> dict[Variant, dict[int, str]]:
        """Variant → seed → the id of its planned trial."""
        return _by_seed(self.trials, "trial")

    @cached_property
    def outcomes(self) -> dict[Variant, dict[int, str]]:
        """Variant → seed → how its trial ended."""
        return _by_seed(self.trials[~self.trials["outcome"].isin((WAITING, UNREADABLE))], "outcome")

    @cached_property
    def rows(self) -> dict[tuple[str, str], Any]:
        """Experiment and metric → row numbers of the measurements, as a fast filter."""
        return dict(self.measurements.groupby(["experiment", "metric"]).indices)

    def of_metric(self, experiment: str, metric: str) -> pd.DataFrame:
        """The measurements of one metric in an experiment."""
        return self.measurements.iloc[self.rows.get((experiment, metric), [])]

    @cached_property
    def scores(self) -> dict[tuple[str, ...], dict[int, float]]:
        """Variant, metric, split and place → seed → final value, of trials that ended well."""
        fine = self.final[self.final["status"] == FINE]
        found: dict[tuple[str, ...], dict[int, float]] = {}
        columns = [*VARIANT, "metric", "split", "where", "seed", "value"]
        for *key, seed, value in fine[columns].itertuples(index=False, name=None):
            found.setdefault(tuple(key), {})[seed] = value
        return found

    @cached_property
    def timings(self) -> dict[tuple[str, ...], list[list[Row]]]:
        """Variant and metric → for each trial, place and session a measurement of each process."""
        frame = self.measurements
        timed = frame[frame["session"].notna() & frame["value"].isna()]
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in timed.to_dict("records"):
            entry = self.experiments[row["experiment"]]
            baseline = row["experiment"], entry["baseline"], row["factors"]
            known = self.ids.get(baseline, {}).get(row["seed"])
            if isinstance(row["baseline_trial"], str) and row["baseline_trial"] != known:
                continue  # timed together with the baseline of another experiment
            key = *(row[name] for name in TRIAL), row["metric"], row["where"]
            groups.setdefault((*key, session_of(row["session"])), []).append(row)
        found: dict[tuple[str, ...], list[list[Row]]] = {}
        for key, group in groups.items():
            found.setdefault((*key[:3], key[5]), []).append(group)
        return found


def _by_seed(trials: pd.DataFrame, column: str) -> dict[Variant, dict[int, str]]:
    found: dict[Variant, dict[int, str]] = {}
    columns = trials[[*VARIANT, "seed", column]]
    for name, label, across, seed, value in columns.itertuples(index=False, name=None):
        found.setdefault((name, label, across), {})[seed] = value
    return found


def scores(
    loaded: Loaded, variant: Variant, metric: str, split: str, at: Mapping[str, Any]
) -> dict[int, float]:
    """Seed → final value of a metric at exactly these coordinates, in this split or in none."""
    where = where_of(at)
    keys = [(*variant, metric, part, where) for part in ("", split)]
    return {seed: value for key in keys for seed, value in loaded.scores.get(key, {}).items()}


def by_step(
    loaded: Loaded, variant: Variant, metric: str, split: str, at: Mapping[str, Any]
) -> pd.DataFrame:
    """A metric along training (`seed`, `step`, `value`), of trials with status ok."""
    frame = loaded.of_metric(variant[0], metric)
    is_own = (frame["variant"] == variant[1]) & (frame["factors"] == variant[2])
    is_there = frame["split"].isin(("", split)) & (frame["where"] == where_of(at))
    own = frame[is_own & is_there & (frame["status"] == FINE) & frame["session"].isna()]
    return own[["seed", "step", "value"]]


def load(root: str | Path) -> Loaded:
    """Read a results folder; RecordError if it has no usable plan."""
    results = Results(root)
    if not results.root.is_dir():
        raise RecordError(
            f"no results folder {printable(str(root))!r}: run an ablation there first"
        )
    plan = printable(results.read_plan())
    records: dict[str, Record] = {}
    unreadable: dict[str, str] = {}
    for trial in dict.fromkeys(planned["trial"] for planned, _ in _planned(plan)):
        try:
            record = results.read(trial)
        except RecordError as error:
            unreadable[trial] = str(printable(str(error)))
        except (OSError, RecursionError) as error:
            unreadable[trial] = f"{trial}.json: cannot be read ({type(error).__name__})"
        else:
            if record is not None:
                records[trial] = record
    return tabulate(results.root, plan, records, unreadable)


def tabulate(
    root: Path,
    plan: dict[str, Any],
    records: dict[str, Record],
    unreadable: Mapping[str, str] | None = None,
) -> Loaded:
    """A plan and its records as frames."""
    faults = dict(unreadable or {})
    by_files = cache(lambda files: changed(dict(files)))  # records share their stamps

    def check(stamp: Mapping[str, str]) -> list[str]:
        return list(by_files(frozenset(stamp.items())))

    outcomes: list[Row] = []
    taken: list[tuple[Row, list[Measurement]]] = []
    stale: set[str] = set()
    for trial, sources in _planned(plan):
        record, fault = records.get(trial["trial"]), faults.get(trial["trial"])
        if record is not None:
            if is_stale(record, sources, check):
                stale.add(trial["trial"])
            fault = _mismatch(trial, record)
        known = None if fault else record
        outcomes.append({**trial, **_outcome(known, fault, sources)})
        if known is not None:
            asked = (TRAINING, *sources)  # and nothing that only another experiment needs
            own = [each for each in known.measurements if each.source in asked]
            taken.append(({**trial, "status": known.status}, own))
    measurements = _tidy(taken)
    last = {id(each) for _, own in taken for each in final(own)}
    is_last = np.array([id(each) in last for _, own in taken for each in own], dtype=bool)
    is_current = ~_of_other_code(measurements, records, check)
    measurements = measurements[is_current].reset_index(drop=True)
    return Loaded(
        root=root,
        plan=plan,
        records=records,
        unreadable=faults,
        trials=pd.DataFrame(outcomes, columns=OUTCOME),
        measurements=measurements,
        final=measurements[is_last[is_current]],
        stale=frozenset(stale),
    )


def _planned(plan: dict[str, Any]) -> Iterator[tuple[Row, list[str]]]:
    """Each planned trial as a row, and the evaluations that it needs."""
    for name, entry in plan["experiments"].items():
        for trial in entry["trials"]:
            own = {key: trial[key] for key in ("variant", "seed", "settings")}
            own |= {"trial": trial["id"], "experiment": name}
            yield {**own, "factors": crossing(trial["factors"])}, trial["sources"]


def _mismatch(trial: Row, record: Record) -> str | None:
    """Why a record is not that of the planned trial; None if it is."""
    if record.id != trial["trial"]:
        return f"its record is of trial {record.id}"
    if record.config.get("seed") != trial["seed"]:
        return f"its record is of seed {record.config.get('seed')}, the plan asks for another"
    if record.settings != trial["settings"]:
        return "its record has other settings than the plan asks for"
    return None


def _outcome(record: Record | None, fault: str | None, sources: list[str]) -> Row:
    if record is None:
        return {"outcome": UNREADABLE if fault else WAITING, "reason": fault, "missing": 0}
    return {
        "outcome": record.status,
        "reason": printable(record.reason),
        "parameters": record.parameters,
        "flops_per_token": record.flops_per_token,
        "missing": len(set(sources) - set(record.sources)) if record.status == FINE else 0,
        "numerics": printable(record.env.get("numerics")),
    }


def _of_other_code(
    frame: pd.DataFrame, records: Mapping[str, Record], check: Callable[[Stamp], list[str]]
) -> pd.Series:
    """Which measurements were taken by other code than the rest of their experiment."""
    wrong: set[tuple[str, str, str]] = set()
    for (name, measure), trials in (
        frame.groupby(["experiment", "source"])["trial"].unique().items()
    ):
        held = {trial: records[trial] for trial in trials}
        stamps = {
            trial: {**(record.env.get("code") or {}), **record.sources.get(measure, {})}
            for trial, record in held.items()
        }
        wrong |= {(name, measure, trial) for trial in _outnumbered(stamps, check)}
    keys = pd.MultiIndex.from_frame(frame[["experiment", "source", "trial"]])
    return pd.Series(keys.isin(wrong) if wrong else False, index=frame.index)


def _outnumbered(stamps: Mapping[str, Stamp], check: Callable[[Stamp], list[str]]) -> set[str]:
    """The trials that cannot be compared with the rest because other code made them.

    Two stamps contradict each other if they have different digests for one file. Then the trials
    made by the present code count; if there are none, those of the commonest version.
    """
    digests: dict[str, set[str]] = {}
    for made_by in stamps.values():
        for file, digest in made_by.items():
            digests.setdefault(file, set()).add(digest)
    disputed = sorted(file for file, found in digests.items() if len(found) > 1)
    if not disputed:
        return set()
    if of_now := {trial for trial, made_by in stamps.items() if not check(made_by)}:
        return stamps.keys() - of_now
    versions = {trial: tuple(map(made_by.get, disputed)) for trial, made_by in stamps.items()}
    most, _ = Counter(versions.values()).most_common(1)[0]
    return {trial for trial, version in versions.items() if version != most}


def _tidy(taken: list[tuple[Row, list[Measurement]]]) -> pd.DataFrame:
    """A row for each measurement, built column by column because there are very many."""
    measurements = [measurement for _, own in taken for measurement in own]
    columns: dict[str, Any] = {
        name: [getattr(each, name.removesuffix("_trial")) for each in measurements]
        for name in PLAIN
    }
    shown = cache(printable)  # each text is checked once
    for name in ("metric", "unit", "reason"):
        columns[name] = list(map(shown, columns[name]))
    columns["split"] = [split or "" for split in columns["split"]]
    columns["step"] = np.array(
        [at.get("step", math.nan) for at in columns["coordinates"]], dtype=float
    )
    columns["where"] = [where_of(at) for at in columns["coordinates"]]
    columns["value"] = np.array(columns["value"], dtype=float)
    places = pd.DataFrame(columns["coordinates"], index=range(len(measurements)))
    coordinates = sorted(set(places) - set(COLUMNS))
    trials = pd.DataFrame([trial for trial, _ in taken], columns=[*TRIAL, "settings", "status"])
    repeated = np.repeat(np.arange(len(taken)), [len(own) for _, own in taken])
    whose = trials.take(repeated).reset_index(drop=True)
    frame = pd.concat(
        [whose, pd.DataFrame(columns)[[*PLAIN, "step", "where"]], places[coordinates]], axis=1
    )
    return frame[[*COLUMNS, *coordinates]]


def where_of(at: Mapping[str, Any]) -> str:
    """Coordinates without the step in one canonical line: `batch 64, length 16`."""
    if not at or (len(at) == 1 and "step" in at):  # the usual case
        return ""
    texts = {k: v if isinstance(v, str) else f"{v:.12g}" for k, v in at.items() if k != "step"}
    return ", ".join(f"{name} {texts[name]}" for name in sorted(texts))


def crossing(across: Mapping[str, str]) -> str:
    """Levels of factors in one canonical line: `data=3k, depth=2`; empty without factors."""
    return ", ".join(f"{name}={across[name]}" for name in sorted(across))


def session_of(named: str | None) -> str | None:
    """The session of a measurement without its process: `1f2e3d4c.0` belongs to `1f2e3d4c`."""
    return named.partition(".")[0] if isinstance(named, str) else None
