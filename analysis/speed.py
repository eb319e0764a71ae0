"""How much longer a call takes than the control's: paired in the same blocks, over processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import environment, stats
from analysis.load import CELL, Loaded, listed
from analysis.load import place as at
from analysis.names import cell_name

SAME = "control against itself"
FEW = f"fewer than {stats.LEAST} processes"
TOKENS = "tokens"  # a budget, which the batch of a place follows from
COLUMNS = [
    *("ablation", "task", "label", "across", "name", "control", "seed", "trial", "metric", "at"),
    *("place", "against", "session", "machine", "noisy", "n", "ratio", "low", "high"),
    *("logs", "floor"),
    *("seconds", "seconds_low", "seconds_high", "log_seconds", "verdict", "reason"),
    *("peak_memory", "control_peak_memory", "tokens_per_second"),
]
Row = dict[str, Any]


def speeds(loaded: Loaded) -> pd.DataFrame:
    """One row per timed cell and point, with the interval of its ratio never narrower than that of
    the control timed beside itself; the control's own rows are that."""
    memory = _peak_memory(loaded.readings)
    rows: list[Row] = []
    for group in loaded.timings:
        first = group[0]
        ablation = loaded.ablations[first["ablation"]]
        logs, floor, reason = log_ratios(group)
        ratio, low, high = stats.ratio_ends(logs, 0.0 if math.isnan(floor) else floor)
        seconds, seconds_low, seconds_high = stats.ratio_ends(log_seconds(group))
        session = environment.session_of(first["session"])
        record = loaded.records[first["trial"]]
        beside = ablation["metrics"].get(first["metric"], {}).get("beside", {})
        elsewhere = {name: word for name, word in beside.items() if first["at"].get(name) != word}
        is_itself = first["label"] == ablation["control"] and not elsewhere
        own, control = (
            memory.get((first["ablation"], first["across"], label, first["at"].get("length")))
            for label in (first["label"], ablation["control"])
        )
        rows.append(
            {
                **{name: first[name] for name in (*CELL, "metric")},
                "task": ablation["task"],
                "control": ablation["control"],
                "name": cell_name(first["label"], first["across"]),
                "at": at(first["at"]),
                "place": first["at"],
                "against": ", ".join(part for part in (ablation["control"], at(elsewhere)) if part),
                "session": session,
                "machine": environment.machine(record, session),
                "noisy": environment.is_noisy(record, session),
                **{"n": len(logs), "ratio": ratio, "low": low, "high": high},
                "logs": logs,
                "floor": math.exp(floor),
                "seconds": seconds,
                "seconds_low": seconds_low,
                "seconds_high": seconds_high,
                "log_seconds": log_seconds(group),
                "verdict": SAME if is_itself else _word(len(logs), low, high, floor),
                "reason": reason,
                "peak_memory": math.nan if own is None else own,
                "control_peak_memory": math.nan if control is None else control,
                "tokens_per_second": _tokens_per_second(group),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def _word(n: int, low: float, high: float, floor: float) -> str:
    """Slower or faster where the interval excludes 1; without an A/A pair nothing is resolved."""
    if n == 0:
        return stats.NOT_RUN
    if n < stats.LEAST:
        return FEW
    if math.isnan(floor) or not (low > 1 or high < 1):
        return stats.NOT_RESOLVED
    return stats.SLOWER if low > 1 else stats.FASTER


def places(
    loaded: Loaded, ablation: str, label: str, across: str, metric: str, where: Mapping[str, Any]
) -> list[list[Row]]:
    """Of each place that `where` describes the readings of one arm, a reading for each process.

    Where it does not speak of a budget of tokens, places that have one are others.
    """
    key = (ablation, label, across, metric)
    found = [
        group
        for group in loaded.timings
        if tuple(group[0][name] for name in ("ablation", "label", "across", "metric")) == key
        and all(group[0]["at"].get(name) == value for name, value in where.items())
        and (TOKENS in where or TOKENS not in group[0]["at"])
    ]
    first = min((group[0]["seed"] for group in found), default=None)  # as good as any other
    return [group for group in found if group[0]["seed"] == first]


def log_seconds(group: list[Row]) -> list[float]:
    """Of one place: the mean log time in each process; nothing where one has none."""
    held = [row["samples"] for row in group]
    if not all(isinstance(samples, list) and samples for samples in held):
        return []
    if not all(0 < sample < math.inf for samples in held for sample in samples):
        return []
    return [math.fsum(map(math.log, samples)) / len(samples) for samples in held]


def log_ratios(group: list[Row]) -> tuple[list[float], float, str]:
    """Of one place: log ratio to the control's time in each process, the noise floor, and why there
    is none where there is none."""
    for row in group:
        if not isinstance(row["samples"], list):
            return [], math.nan, str(row["reason"])
        if not isinstance(row["reference"], list):
            return [], math.nan, "timed without a reference"
    try:
        logs = [stats.log_ratio(row["samples"], row["reference"]) for row in group]
    except ValueError as error:
        return [], math.nan, str(error)
    try:
        same = [stats.log_ratio(row["twin"] or [], row["reference"]) for row in group]
    except (ValueError, TypeError):  # it was not timed beside a copy of itself
        return logs, math.nan, ""
    return logs, stats.noise_floor(same), ""


def _tokens_per_second(group: list[Row]) -> float:
    """All input tokens of the timed steps over all their time; of other calls not known."""
    place = group[0]["at"]
    if group[0]["metric"] != "step_time" or not {"batch", "length"} <= place.keys():
        return math.nan
    if not log_seconds(group):
        return math.nan
    samples = [sample for row in group for sample in row["samples"]]
    return float(place["batch"] * place["length"] * len(samples) / math.fsum(samples))


def _peak_memory(frame: pd.DataFrame) -> dict[tuple[str, str, str, Any], float]:
    """Largest peak in bytes by ablation, crossing, label and length."""
    peaks: dict[tuple[str, str, str, Any], float] = {}
    for row in listed(frame[(frame["metric"] == "peak_memory") & frame["value"].notna()]):
        if row["at"].get("of", "model") == "model":
            key = (row["ablation"], row["across"], row["label"], row["at"].get("length"))
            peaks[key] = max(peaks.get(key, 0.0), row["value"])
    return peaks
