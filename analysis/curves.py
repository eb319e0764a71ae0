"""What was measured along a coordinate: times and bytes against a length, in tidy rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import environment, stats
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.plots.style import Look, looks
from analysis.speed import TOKENS, at, log_ratios, timed

WALKED = ("length", "position")  # coordinates that a curve goes along
FEWEST = 3  # points of a curve
COLUMNS = [
    *("ablation", "label", "across", "name", "control", "metric", "along", "x", "series", "batch"),
    *("value", "low", "high", "ratio", "ratio_low", "ratio_high", "logs", "reason", "log_seconds"),
    *("colour", "marker", "dash"),
]


def curves(evidence: Evidence) -> pd.DataFrame:
    """Every timed or counted point that is one of a curve, with the look of its variant."""
    kept = evidence.loaded.kept
    if "curves" not in kept:
        kept["curves"] = _curves(evidence)
    found: pd.DataFrame = kept["curves"]
    return found.copy()


def _curves(evidence: Evidence) -> pd.DataFrame:
    rows = [*_timed_rows(evidence), *_counted_rows(evidence)]
    frame = pd.DataFrame(rows, columns=COLUMNS[:-3])
    keys = ["ablation", "across", "metric", "along", "series"]
    frame = frame.drop_duplicates([*keys, "label", "x"])  # the first seed is as good as another
    points = frame.groupby(keys)["x"].transform("nunique") if len(frame) else []
    frame = frame[np.asarray(points, dtype=float) >= FEWEST].copy()
    return with_looks(frame, evidence).reset_index(drop=True)


def with_looks(frame: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Its rows with the look that their variants have in every figure."""
    told = looks_of(evidence)
    each = [vars(told[label]) for label in frame["label"]]
    names = ("colour", "marker", "dash")
    return frame.assign(**{name: [look[name] for look in each] for name in names})


def looks_of(evidence: Evidence) -> dict[str, Look]:
    """The look of every variant of a folder."""
    kept = evidence.loaded.kept
    if "looks" not in kept:
        cells = evidence.loaded.cells
        together = [set(group) for _, group in cells.groupby("ablation", sort=False)["label"]]
        kept["looks"] = looks(cells["label"].tolist(), together)
    found: dict[str, Look] = kept["looks"]
    return found


def on_curves(evidence: Evidence) -> pd.Series:
    """Which rows of the speeds are points of a curve, where one number each says little."""
    speeds = evidence.speeds
    places = [walked(place) or {"series": None, "x": None} for place in speeds["place"]]
    told = pd.DataFrame(
        {
            "key": [
                (r["ablation"], r["across"], r["metric"], place["series"])
                for r, place in zip(listed(speeds), places, strict=True)
            ],
            "x": [place["x"] for place in places],
        },
        index=speeds.index,
    )
    counts = told.groupby("key")["x"].transform("nunique") if len(told) else told["x"]
    return counts.astype(float) >= FEWEST


def _timed_rows(evidence: Evidence) -> list[dict[str, Any]]:
    logs = _logs(evidence)
    rows = []
    for row in listed(evidence.speeds):
        place = walked(row["place"])
        if place is None:
            continue
        key = (row["ablation"], row["across"], row["metric"], row["at"], row["session"])
        rows.append(
            {
                **{name: row[name] for name in ("ablation", "label", "across", "name", "control")},
                "metric": row["metric"],
                **place,
                "value": row["seconds"],
                "low": row["seconds_low"],
                "high": row["seconds_high"],
                **_ratio(logs.get((*key, row["label"])), logs.get((*key, row["control"]))),
                "reason": row["reason"] if math.isnan(row["seconds"]) else "",
                "log_seconds": row["log_seconds"],
            }
        )
    return rows


def _logs(evidence: Evidence) -> dict[tuple[Any, ...], list[float]]:
    """Of each arm and place the log ratios to the reference, process by process."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for group in timed(evidence.loaded):
        first = group[0]
        session = environment.session_of(first["session"])
        key = (first["ablation"], first["across"], first["metric"], at(first["at"]), session)
        found.setdefault((*key, first["label"]), log_ratios(group)[0])
    return found


def _ratio(own: list[float] | None, control: list[float] | None) -> dict[str, Any]:
    """To the control at the same place: the session's reference may stand elsewhere."""
    if not own or not control or len(own) != len(control):
        return {**dict.fromkeys(("ratio", "ratio_low", "ratio_high"), math.nan), "logs": []}
    logs = [a - b for a, b in zip(own, control, strict=True)]
    found = stats.ratio_over_processes(logs)
    ends = {"ratio_low": found.low, "ratio_high": found.high}
    return {"ratio": found.ratio, **ends, "logs": logs}


def _counted_rows(evidence: Evidence) -> list[dict[str, Any]]:
    loaded = evidence.loaded
    counted = {
        name: {m for m, told in entry["metrics"].items() if told.get("repeats") == "nothing"}
        for name, entry in loaded.ablations.items()
    }
    frame = loaded.readings
    rows = []
    for row in listed(frame[frame["metric"].isin(set().union(*counted.values()))]):
        place = walked(row["at"])
        if place is None or row["metric"] not in counted[row["ablation"]]:
            continue
        value = math.nan if row["value"] is None else float(row["value"])
        rows.append(
            {
                **{name: row[name] for name in ("ablation", "label", "across", "metric")},
                "name": cell_name(row["label"], row["across"]),
                "control": loaded.ablations[row["ablation"]]["control"],
                **place,
                "value": value,
                **dict.fromkeys(("low", "high", "ratio", "ratio_low", "ratio_high"), math.nan),
                "logs": [],
                "reason": row["reason"] if math.isnan(value) else "",
                "log_seconds": [],
            }
        )
    return rows


def walked(place: Mapping[str, Any], names: Iterable[str] = WALKED) -> dict[str, Any] | None:
    """How far along which coordinate, and what else the place is: `batch 1, training`."""
    along = next((name for name in names if name in place), None)
    if along is None:
        return None
    batch = place.get("batch", math.nan)
    follows = (along, "batch") if TOKENS in place else (along,)
    rest = {name: value for name, value in place.items() if name not in follows}
    words = [f"{rest.pop(TOKENS):g} tokens"] if TOKENS in rest else []
    words += [str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in sorted(rest.items())]
    return {"along": along, "x": place[along], "series": ", ".join(words), "batch": batch}


def crossings(frame: pd.DataFrame) -> pd.DataFrame:
    """Where each variant of a timed curve and its control change places, with an interval."""
    keys = ["ablation", "across", "label", "control", "metric", "along", "series"]
    rows = []
    for found, points in frame.groupby(keys, sort=False):
        known = points[points["logs"].map(len) > 0].sort_values("x")
        counts = set(known["logs"].map(len))
        if found[2] == found[3] or known["x"].nunique() < 2 or len(counts) != 1:
            continue
        where = stats.crossing(known["x"].to_numpy(float), np.array(known["logs"].tolist()).T)
        rows.append({**dict(zip(keys, found, strict=True)), **vars(where)})
    return pd.DataFrame(rows, columns=[*keys, "changes", "low", "high", "at"])


def exponents(frame: pd.DataFrame) -> pd.DataFrame:
    """How each curve grows over the longer half of its lengths: the power of the length, with
    a 95 % interval over processes."""
    keys = ["ablation", "across", "label", "metric", "along", "series"]
    rows = []
    for found, points in frame.groupby(keys, sort=False):
        counted = points["value"].notna() & (points["value"] > 0)
        known = points[(points["log_seconds"].map(len) > 0) | counted].sort_values("x")
        upper = known[known["x"] >= known["x"].median()]
        if upper["x"].nunique() < 2 or len(set(upper["log_seconds"].map(len))) != 1:
            continue
        logs = [
            own or [math.log(value)]
            for own, value in zip(upper["log_seconds"], upper["value"], strict=True)
        ]
        times_SL = np.exp(np.array(logs).T)
        estimate = stats.exponent(upper["x"].to_numpy(float), times_SL)
        low, high = estimate.ends() if estimate.error > 0 else (math.nan, math.nan)
        told = {"exponent": estimate.value, "low": low, "high": high, "since": upper["x"].min()}
        rows.append({**dict(zip(keys, found, strict=True)), **told})
    return pd.DataFrame(rows, columns=[*keys, "exponent", "low", "high", "since"])
