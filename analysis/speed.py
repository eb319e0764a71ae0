"""How much longer a call takes than the control's: paired in the same blocks, over processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import environment, stats
from analysis.load import CELL, Loaded, listed
from analysis.names import cell_name

SAME = "control against itself"
TOKENS = "tokens"  # a budget, which the batch of a place follows from
COLUMNS = [
    *("ablation", "task", "label", "across", "name", "control", "seed", "trial", "metric", "at"),
    *(
        "place",
        "against",
        "session",
        "machine",
        "noisy",
        "n",
        "ratio",
        "low",
        "high",
        "logs",
        "floor",
    ),
    *("seconds", "seconds_low", "seconds_high", "log_seconds", "verdict", "reason"),
    *("peak_memory", "control_peak_memory", "tokens_per_second"),
]
Row = dict[str, Any]


def speeds(loaded: Loaded) -> pd.DataFrame:
    """One row per timed cell and point; the control's own rows are it beside itself."""
    memory = _peak_memory(loaded.readings)
    rows: list[Row] = []
    for group in timed(loaded):
        first = group[0]
        ablation = loaded.ablations[first["ablation"]]
        ratio, floor, reason = _judged(group)
        session = environment.session_of(first["session"])
        record = loaded.records[first["trial"]]
        seconds = stats.ratio_over_processes(_log_seconds(group))
        peaks = (
            memory.get((first["ablation"], first["across"], label, first["at"].get("length")))
            for label in (first["label"], ablation["control"])
        )
        own, control = (math.nan if peak is None else peak for peak in peaks)
        beside = ablation["metrics"].get(first["metric"], {}).get("beside", {})
        elsewhere = {name: word for name, word in beside.items() if first["at"].get(name) != word}
        is_itself = first["label"] == ablation["control"] and not elsewhere
        rows.append(
            {
                **{name: first[name] for name in CELL},
                "task": ablation["task"],
                "control": ablation["control"],
                "name": cell_name(first["label"], first["across"]),
                "metric": first["metric"],
                "at": at(first["at"]),
                "place": first["at"],
                "against": ", ".join(part for part in (ablation["control"], at(elsewhere)) if part),
                "session": session,
                "machine": environment.machine(record, session),
                "noisy": environment.is_noisy(record, session),
                **vars(ratio),
                "logs": _log_ratios(group, "samples") if ratio.n else [],
                "seconds": seconds.ratio,
                "seconds_low": seconds.low,
                "seconds_high": seconds.high,
                "log_seconds": _log_seconds(group),
                "floor": math.exp(floor),
                "verdict": SAME if is_itself else stats.speed_verdict(ratio, floor),
                "reason": reason,
                "peak_memory": own,
                "control_peak_memory": control,
                "tokens_per_second": _tokens_per_second(group),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def places(
    loaded: Loaded, ablation: str, label: str, across: str, metric: str, where: Mapping[str, Any]
) -> list[list[Row]]:
    """Of each place that `where` describes the readings of one arm, a reading for each process.

    Where it does not speak of a budget of tokens, places that have one are others.
    """
    kept = loaded.kept.setdefault("timed", {})
    if not kept:
        for group in timed(loaded):
            key = *(group[0][name] for name in CELL[:3]), group[0]["metric"]
            kept.setdefault(key, []).append(group)
    found = [
        group
        for group in kept.get((ablation, label, across, metric), [])
        if all(group[0]["at"].get(name) == value for name, value in where.items())
        and (TOKENS in where or TOKENS not in group[0]["at"])
    ]
    first = min((group[0]["seed"] for group in found), default=None)  # as good as any other
    return [group for group in found if group[0]["seed"] == first]


def log_ratios(group: list[Row]) -> tuple[list[float], float]:
    """Of one place: log ratio to the control's time in each process, and the noise floor."""
    ratio, floor, _ = _judged(group)
    return (_log_ratios(group, "samples") if ratio.n else []), floor


def log_seconds(group: list[Row]) -> list[float]:
    """Of one place: the mean log time in each process; nothing where one has none."""
    return _log_seconds(group)


def timed(loaded: Loaded) -> list[list[Row]]:
    """The readings of each timed cell and point, a reading for each process of one session."""
    if "groups" not in loaded.kept:
        loaded.kept["groups"] = _timed(loaded)
    found: list[list[Row]] = loaded.kept["groups"]
    return found


def _timed(loaded: Loaded) -> list[list[Row]]:
    frame = loaded.readings
    controls = _controls(loaded)
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in listed(frame[frame["session"].notna() & frame["value"].isna()]):
        control = controls.get((row["ablation"], row["across"], row["seed"]))
        if isinstance(row["against"], str) and row["against"] != control:
            continue  # timed beside the control of another question
        place = *(row[name] for name in CELL), row["metric"], at(row["at"])
        groups.setdefault((*place, environment.session_of(row["session"])), []).append(row)
    return list(groups.values())


def _judged(group: list[Row]) -> tuple[stats.Ratio, float, str]:
    """The ratio over processes, the noise floor, and why there is none where there is none."""
    for row in group:
        if not isinstance(row["samples"], list):
            return stats.Ratio(0), math.nan, str(row["reason"])
        if not isinstance(row["reference"], list):
            return stats.Ratio(0), math.nan, "timed without a reference"
    try:
        ratio = stats.ratio_over_processes(_log_ratios(group, "samples"))
    except ValueError as error:
        return stats.Ratio(0), math.nan, str(error)
    if not all(isinstance(row["twin"], list) for row in group):
        return ratio, math.nan, ""
    try:
        same = stats.ratio_over_processes(_log_ratios(group, "twin"))
    except ValueError:
        return ratio, math.nan, ""
    return ratio, stats.noise_floor(same), ""


def _log_ratios(group: list[Row], of: str) -> list[float]:
    return [stats.log_ratio(row[of], row["reference"]) for row in group]


def _log_seconds(group: list[Row]) -> list[float]:
    if not all(isinstance(row["samples"], list) and row["samples"] for row in group):
        return []
    if not all(0 < sample < math.inf for row in group for sample in row["samples"]):
        return []
    return [math.fsum(map(math.log, row["samples"])) / len(row["samples"]) for row in group]


def _tokens_per_second(group: list[Row]) -> float:
    """All input tokens of the timed steps over all their time; of other calls not known."""
    place = group[0]["at"]
    if group[0]["metric"] != "step_time" or not {"batch", "length"} <= place.keys():
        return math.nan
    if not _log_seconds(group):
        return math.nan
    samples = [sample for row in group for sample in row["samples"]]
    return float(place["batch"] * place["length"] * len(samples) / math.fsum(samples))


def _controls(loaded: Loaded) -> dict[tuple[str, str, int], str]:
    """The trial that each cell's times are to be taken beside."""
    return {
        (cell["ablation"], cell["across"], cell["seed"]): cell["trial"]
        for cell in listed(loaded.cells)
        if cell["label"] == loaded.ablations[cell["ablation"]]["control"]
    }


def at(coordinates: Mapping[str, Any]) -> str:
    """Coordinates in one canonical line: `batch 64, length 16`."""
    return ", ".join(f"{name} {_word(coordinates[name])}" for name in sorted(coordinates))


def _word(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"


def _peak_memory(frame: pd.DataFrame) -> dict[tuple[str, str, str, Any], float]:
    """Largest peak in bytes by ablation, crossing, label and length."""
    peaks: dict[tuple[str, str, str, Any], float] = {}
    found = frame[(frame["metric"] == "peak_memory") & frame["value"].notna()]
    for row in listed(found):
        if row["at"].get("of", "model") == "model":
            key = (row["ablation"], row["across"], row["label"], row["at"].get("length"))
            peaks[key] = max(peaks.get(key, 0.0), row["value"])
    return peaks
