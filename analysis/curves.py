"""What was measured along a coordinate: times and bytes against a length, in tidy rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import stats
from analysis.contrasts import Evidence
from analysis.environment import session_of
from analysis.load import listed
from analysis.names import cell_name
from analysis.speed import TOKENS, log_ratios

WALKED = ("length", "position")  # coordinates that a curve goes along
FEWEST = 3  # points of a curve
CURVE = ["ablation", "across", "metric", "along", "series"]
COLUMNS = [
    *("ablation", "label", "across", "name", "control", "metric", "along", "x", "series", "batch"),
    *("value", "low", "high", "ratio", "ratio_low", "ratio_high", "logs", "floor", "reason"),
    "log_seconds",
]


def curves(evidence: Evidence) -> pd.DataFrame:
    """Every timed or counted point that is one of a curve."""
    frame = pd.DataFrame([*_timed_rows(evidence), *_counted_rows(evidence)], columns=COLUMNS)
    frame = frame.drop_duplicates([*CURVE, "label", "x"])  # the first seed is as good as another
    points = frame.groupby(CURVE)["x"].transform("nunique") if len(frame) else []
    return frame[np.asarray(points, dtype=float) >= FEWEST].reset_index(drop=True)


def on_curves(evidence: Evidence) -> pd.Series:
    """Which rows of the speeds are points of a curve, where one number each says little."""
    speeds = evidence.speeds
    told = [walked(place) or {"series": None, "x": math.nan} for place in speeds["place"]]
    frame = speeds[["ablation", "across", "metric"]].assign(
        series=[each["series"] for each in told], x=[each["x"] for each in told]
    )
    keys = ["ablation", "across", "metric", "series"]
    counts = frame.groupby(keys, dropna=False)["x"].transform("nunique")
    return counts.astype(float) >= FEWEST


def _timed_rows(evidence: Evidence) -> list[dict[str, Any]]:
    keys = ["ablation", "across", "metric", "place", "session"]
    logs: dict[tuple[Any, ...], tuple[list[float], float]] = {}
    for group in evidence.loaded.timings:
        first = {**group[0], "session": session_of(group[0]["session"])}
        # The first seed is as good as another.
        logs.setdefault((*(first[name] for name in keys), first["label"]), log_ratios(group)[:2])
    rows = []
    for row in listed(evidence.speeds):
        place = walked(row["place"])
        if place is None:
            continue
        key = [row["at"] if name == "place" else row[name] for name in keys]
        nothing: tuple[list[float], float] = [], math.nan
        own, control = (logs.get((*key, row[side]), nothing) for side in ("label", "control"))
        rows.append(
            {
                **row,
                **place,
                **{"value": row["seconds"], "low": row["seconds_low"], "high": row["seconds_high"]},
                **_ratio(own, control),
                "reason": row["reason"] if math.isnan(row["seconds"]) else "",
            }
        )
    return rows


def _ratio(own: tuple[list[float], float], control: tuple[list[float], float]) -> dict[str, Any]:
    """To the control at the same place: the session's reference may stand elsewhere."""
    is_paired = len(own[0]) == len(control[0])
    logs = [a - b for a, b in zip(own[0], control[0], strict=True)] if is_paired else []
    floor = float(np.fmax(own[1], control[1]))
    ends = stats.ratio_ends(logs, 0.0 if math.isnan(floor) else floor)
    names = ("ratio", "ratio_low", "ratio_high")
    return {**dict(zip(names, ends, strict=True)), "logs": logs, "floor": floor}


def _counted_rows(evidence: Evidence) -> list[dict[str, Any]]:
    loaded = evidence.loaded
    counted = {
        (name, metric)
        for name, entry in loaded.ablations.items()
        for metric, told in entry["metrics"].items()
        if told.get("repeats") == "nothing"
    }
    frame = loaded.readings
    rows = []
    for row in listed(frame[frame["metric"].isin({metric for _, metric in counted})]):
        place = walked(row["at"])
        if place is None or (row["ablation"], row["metric"]) not in counted:
            continue
        rows.append(
            {
                **{name: row[name] for name in ("ablation", "label", "across", "metric", "value")},
                "name": cell_name(row["label"], row["across"]),
                "control": loaded.ablations[row["ablation"]]["control"],
                **place,
                **{"logs": [], "log_seconds": []},
                "reason": row["reason"] if math.isnan(row["value"]) else "",
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
        logs, floor = np.array(known["logs"].tolist()).T, known["floor"].fillna(0.0).max()
        where = stats.crossing(known["x"].to_numpy(float), logs, floor)
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
        estimate = stats.exponent(upper["x"].to_numpy(float), np.exp(np.array(logs).T))
        low, high = estimate.ends()
        told = {"exponent": estimate.value, "low": low, "high": high, "since": upper["x"].min()}
        rows.append({**dict(zip(keys, found, strict=True)), **told})
    return pd.DataFrame(rows, columns=[*keys, "exponent", "low", "high", "since"])
