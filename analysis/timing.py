"""Ratios of times to the baseline's, and how times grow with length.

A ratio compares calls in the same blocks; its interval is over processes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analysis import provenance, stats
from analysis.load import TRIAL, Loaded, Row, Variant, session_of, where_of
from analysis.wording import variant_name

if TYPE_CHECKING:
    from analysis.contrasts import Evidence

SAME = "baseline against itself"
FEW = f"fewer than {stats.LEAST} processes"
TOKENS = "tokens"  # a fixed number of tokens, which determines the batch at each length
WALKED = ("length", "position")  # coordinates that a curve can follow
FEWEST = 3  # points of a curve
COLUMNS = [
    "experiment", "task", "variant", "factors", "name", "baseline", "seed", "trial", "metric",
    "metric_title", "where", "coordinates", "compared_with", "session", "machine", "noisy",
    "n", "ratio", "low", "high", "logs", "floor",
    "seconds", "seconds_low", "seconds_high", "log_seconds", "verdict", "reason",
    "peak_memory", "baseline_peak_memory", "tokens_per_second",
]  # fmt: skip
CURVE = ["experiment", "factors", "metric", "along", "series"]
CURVES = [
    "experiment", "variant", "factors", "name", "baseline", "metric", "along", "x", "series",
    "value", "low", "high", "ratio", "ratio_low", "ratio_high", "logs", "floor", "reason",
    "log_seconds",
]  # fmt: skip

# --- single places


def speeds(loaded: Loaded) -> pd.DataFrame:
    """A row for each timed trial and place. The interval of a ratio is never narrower than that of
    the baseline timed against itself, which is what the baseline's own rows show."""
    peaks = _peak_memory(loaded.measurements)
    groups = [group for groups in loaded.timings.values() for group in groups]
    return pd.DataFrame([_speed(loaded, group, peaks) for group in groups], columns=COLUMNS)


def _speed(loaded: Loaded, group: list[Row], peaks: Mapping[tuple[Any, ...], float]) -> Row:
    first, entry = group[0], loaded.experiments[group[0]["experiment"]]
    name, label, baseline = first["experiment"], first["variant"], entry["baseline"]
    logs, floor, reason = log_ratios(group)
    ratio, low, high = stats.ratio_ends(logs, 0.0 if math.isnan(floor) else floor)
    own = log_seconds(group)
    seconds, seconds_low, seconds_high = stats.ratio_ends(own)
    session = session_of(first["session"])
    record = loaded.records[first["trial"]]
    place = entry["metrics"].get(first["metric"], {}).get("beside", {})
    elsewhere = {
        name: word for name, word in place.items() if first["coordinates"].get(name) != word
    }
    is_itself = label == baseline and not elsewhere
    peak, baseline_peak = (
        peaks.get((name, side, first["factors"], first["coordinates"].get("length")), math.nan)
        for side in (label, baseline)
    )
    return {
        **{key: first[key] for key in (*TRIAL, "metric")},
        **{"task": entry["task"], "baseline": baseline},
        "name": variant_name(label, first["factors"]),
        "metric_title": loaded.title(name, first["metric"]),
        **{"where": where_of(first["coordinates"]), "coordinates": first["coordinates"]},
        **{"session": session, "noisy": provenance.is_noisy(record, session)},
        "compared_with": ", ".join(part for part in (baseline, where_of(elsewhere)) if part),
        "machine": provenance.machine(record, session),
        **{"n": len(logs), "ratio": ratio, "low": low, "high": high, "logs": logs},
        **{"floor": math.exp(floor), "log_seconds": own, "reason": reason},
        **{"seconds": seconds, "seconds_low": seconds_low, "seconds_high": seconds_high},
        "verdict": SAME if is_itself else _word(len(logs), low, high, floor),
        **{"peak_memory": peak, "baseline_peak_memory": baseline_peak},
        "tokens_per_second": _tokens_per_second(group) if own else math.nan,
    }


def _word(n: int, low: float, high: float, floor: float) -> str:
    """Slower or faster if the interval excludes 1; without an A/A pair nothing is resolved."""
    if n == 0:
        return stats.NOT_RUN
    if n < stats.LEAST:
        return FEW
    if math.isnan(floor) or not (low > 1 or high < 1):
        return stats.NOT_RESOLVED
    return stats.SLOWER if low > 1 else stats.FASTER


def timed_at(
    loaded: Loaded, variant: Variant, metric: str, where: Mapping[str, Any]
) -> list[list[Row]]:
    """For each place with these coordinates, a variant's measurement of each process.

    Places with a fixed number of tokens are only found if it is among the coordinates.
    """
    found = [
        group
        for group in loaded.timings.get((*variant, metric), [])
        if all(group[0]["coordinates"].get(name) == value for name, value in where.items())
        and (TOKENS in where or TOKENS not in group[0]["coordinates"])
    ]
    first = min((group[0]["seed"] for group in found), default=None)  # one seed is enough
    return [group for group in found if group[0]["seed"] == first]


def log_seconds(group: list[Row]) -> list[float]:
    """The mean log time of each process; empty if a process has no time."""
    held = [row["samples"] for row in group]
    if not all(isinstance(samples, list) and samples for samples in held):
        return []
    if not all(0 < sample < math.inf for samples in held for sample in samples):
        return []
    return [math.fsum(map(math.log, samples)) / len(samples) for samples in held]


def log_ratios(group: list[Row]) -> tuple[list[float], float, str]:
    """Each process's log ratio to the baseline's time, the noise floor, and why there is none."""
    for row in group:
        if not isinstance(row["samples"], list):
            return [], math.nan, str(row["reason"])
        if not isinstance(row["baseline_samples"], list):
            return [], math.nan, "timed without a reference"
    try:
        logs = [stats.log_ratio(row["samples"], row["baseline_samples"]) for row in group]
    except ValueError as error:
        return [], math.nan, str(error)
    try:
        same = [
            stats.log_ratio(row["baseline_again"] or [], row["baseline_samples"]) for row in group
        ]
    except (ValueError, TypeError):  # the baseline was not timed against itself
        return logs, math.nan, ""
    return logs, stats.noise_floor(same), ""


def _tokens_per_second(group: list[Row]) -> float:
    """Input tokens of the timed steps divided by their time; NaN for other calls."""
    where = group[0]["coordinates"]
    if group[0]["metric"] != "step_time" or not {"batch", "length"} <= where.keys():
        return math.nan
    samples = [sample for row in group for sample in row["samples"]]
    return float(where["batch"] * where["length"] * len(samples) / math.fsum(samples))


def _peak_memory(frame: pd.DataFrame) -> dict[tuple[Any, ...], float]:
    """Largest peak in bytes by variant and length."""
    peaks: dict[tuple[Any, ...], float] = {}
    held = frame[(frame["metric"] == "peak_memory") & frame["value"].notna()]
    for row in held.to_dict("records"):
        if row["coordinates"].get("of", "model") == "model":
            key = *(row[name] for name in TRIAL[:3]), row["coordinates"].get("length")
            peaks[key] = max(peaks.get(key, 0.0), row["value"])
    return peaks


# --- along a length


def curves(evidence: Evidence) -> pd.DataFrame:
    """Every timed or counted point of curves with at least three points."""
    frame = pd.DataFrame([*_timed(evidence), *_counted(evidence.loaded)], columns=CURVES)
    frame = frame.drop_duplicates([*CURVE, "variant", "x"])  # one seed is enough
    points = frame.groupby(CURVE)["x"].transform("nunique") if len(frame) else []
    return frame[np.asarray(points, dtype=float) >= FEWEST].reset_index(drop=True)


def on_curves(evidence: Evidence) -> pd.Series:
    """Which rows of the speeds are points of a curve."""
    speeds = evidence.speeds
    walked = [along(place) or {"series": None, "x": math.nan} for place in speeds["coordinates"]]
    frame = speeds[["experiment", "factors", "metric"]].assign(
        series=[each["series"] for each in walked], x=[each["x"] for each in walked]
    )
    keys = ["experiment", "factors", "metric", "series"]
    return frame.groupby(keys, dropna=False)["x"].transform("nunique").astype(float) >= FEWEST


def _timed(evidence: Evidence) -> list[Row]:
    keys = ["experiment", "factors", "metric", "where", "session"]
    rows = evidence.speeds.to_dict("records")
    baselines: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if row["variant"] == row["baseline"]:  # one seed is enough
            baselines.setdefault(tuple(row[key] for key in keys), row)
    found = []
    for row in rows:
        if where := along(row["coordinates"]):
            value = {"value": row["seconds"], "low": row["seconds_low"]}
            value |= {"high": row["seconds_high"]}
            reason = row["reason"] if math.isnan(row["seconds"]) else ""
            ratio = _ratio(row, baselines.get(tuple(row[key] for key in keys)))
            found.append({**row, **where, **value, **ratio, "reason": reason})
    return found


def _ratio(own: Row, baseline: Row | None) -> Row:
    """The ratio to the baseline at the same place; the session's own may be at another."""
    logs, floor = [], math.log(own["floor"])
    if baseline and len(own["logs"]) == len(baseline["logs"]):
        logs = [a - b for a, b in zip(own["logs"], baseline["logs"], strict=True)]
        floor = float(np.fmax(floor, math.log(baseline["floor"])))
    ends = stats.ratio_ends(logs, 0.0 if math.isnan(floor) else floor)
    names = ("ratio", "ratio_low", "ratio_high")
    return {**dict(zip(names, ends, strict=True)), "logs": logs, "floor": floor}


def _counted(loaded: Loaded) -> list[Row]:
    rows = []
    for name, entry in loaded.experiments.items():
        for metric, known in entry["metrics"].items():
            if known.get("repeats") == "nothing":
                rows += loaded.of_metric(name, metric).to_dict("records")
    return [
        {
            **{key: row[key] for key in ("experiment", "variant", "factors", "metric", "value")},
            "name": variant_name(row["variant"], row["factors"]),
            "baseline": loaded.experiments[row["experiment"]]["baseline"],
            **where,
            **{"logs": [], "log_seconds": []},
            "reason": row["reason"] if math.isnan(row["value"]) else "",
        }
        for row in rows
        if (where := along(row["coordinates"]))
    ]


def along(place: Mapping[str, Any], names: Iterable[str] = WALKED) -> Row | None:
    """Which coordinate a place lies along, how far, and the rest in words: `batch 1, training`."""
    name = next((name for name in names if name in place), None)
    if name is None:
        return None
    follows = (name, "batch") if TOKENS in place else (name,)
    rest = {key: value for key, value in place.items() if key not in follows}
    words = [f"{rest.pop(TOKENS):g} tokens"] if TOKENS in rest else []
    words += [str(v) if isinstance(v, str) else f"{k} {v:g}" for k, v in sorted(rest.items())]
    return {"along": name, "x": place[name], "series": ", ".join(words)}


def crossings(frame: pd.DataFrame) -> pd.DataFrame:
    """Where each variant of a timed curve crosses its baseline, with an interval."""
    keys = ["experiment", "factors", "variant", "baseline", "metric", "along", "series"]
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
    """The exponent of each curve over the longer half of its lengths, with a 95 % interval."""
    keys = ["experiment", "factors", "variant", "metric", "along", "series"]
    rows = []
    for found, points in frame.groupby(keys, sort=False):
        counted = points["value"].notna() & (points["value"] > 0)
        known = points[(points["log_seconds"].map(len) > 0) | counted].sort_values("x")
        upper = known[known["x"] >= known["x"].median()]
        if upper["x"].nunique() < 2 or len(set(upper["log_seconds"].map(len))) != 1:
            continue
        values = [
            [math.exp(log) for log in logs] or [value]
            for logs, value in zip(upper["log_seconds"], upper["value"], strict=True)
        ]
        estimate = stats.exponent(upper["x"].to_numpy(float), np.array(values).T)
        low, high = estimate.ends()
        own = {"exponent": estimate.value, "low": low, "high": high, "since": upper["x"].min()}
        rows.append({**dict(zip(keys, found, strict=True)), **own})
    return pd.DataFrame(rows, columns=[*keys, "exponent", "low", "high", "since"])
