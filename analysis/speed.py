"""How much longer a step takes than the control's: paired in the same blocks, over processes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from analysis import environment, stats
from analysis.load import CELL, Loaded, listed
from analysis.names import cell_name

SAME = "control against itself"
COLUMNS = [
    *("ablation", "task", "label", "across", "name", "control", "seed", "trial", "at"),
    *("session", "machine", "n", "ratio", "low", "high", "floor", "seconds", "verdict", "reason"),
    *("peak_memory", "control_peak_memory"),
]


def speeds(loaded: Loaded) -> pd.DataFrame:
    """One row per timed cell and point; the control's own rows are it beside itself."""
    memory = _peak_memory(loaded.readings)
    rows: list[dict[str, Any]] = []
    for group in _timed(loaded):
        first = group[0]
        ablation = loaded.ablations[first["ablation"]]
        ratio, floor, reason = _judged(group)
        place = (first["ablation"], first["across"], at(first["at"]))
        session = environment.session_of(first["session"])
        rows.append(
            {
                **{name: first[name] for name in CELL},
                "task": ablation["task"],
                "control": ablation["control"],
                "name": cell_name(first["label"], first["across"]),
                "at": at(first["at"]),
                "session": session,
                "machine": environment.machine(loaded.records[first["trial"]], session),
                **vars(ratio),
                "seconds": _mean(group),
                "floor": math.exp(floor),
                "verdict": SAME
                if first["label"] == ablation["control"]
                else stats.speed_verdict(ratio, floor),
                "reason": reason,
                "peak_memory": memory.get((*place, first["label"]), math.nan),
                "control_peak_memory": memory.get((*place, ablation["control"]), math.nan),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


def step_ratios(
    loaded: Loaded, ablation: str, label: str, across: str, where: Mapping[str, Any]
) -> tuple[list[float], float]:
    """Log ratios of a variant's times to the control's, one of each process, and the noise floor.

    Nothing where it was timed at several points and `where` does not tell which.
    """
    found = [
        group
        for group in _timed(loaded)
        if [group[0][name] for name in CELL[:3]] == [ablation, label, across]
        and all(group[0]["at"].get(name) == value for name, value in where.items())
    ]
    first = min((group[0]["seed"] for group in found), default=None)  # as good as any other
    found = [group for group in found if group[0]["seed"] == first]
    if len(found) != 1:
        return [], math.nan
    ratio, floor, _ = _judged(found[0])
    return (_log_ratios(found[0], "samples") if ratio.n else []), floor


def _timed(loaded: Loaded) -> list[list[dict[str, Any]]]:
    """The readings of each timed cell and point, a reading for each process of one session."""
    frame = loaded.readings
    controls = _controls(loaded)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in listed(frame[frame["metric"] == "step_time"]):
        control = controls.get((row["ablation"], row["across"], row["seed"]))
        if isinstance(row["against"], str) and row["against"] != control:
            continue  # timed beside the control of another question
        place = *(row[name] for name in CELL), at(row["at"])
        groups.setdefault((*place, environment.session_of(row["session"])), []).append(row)
    return list(groups.values())


def _judged(group: list[dict[str, Any]]) -> tuple[stats.Ratio, float, str]:
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


def _log_ratios(group: list[dict[str, Any]], of: str) -> list[float]:
    return [stats.log_ratio(row[of], row["reference"]) for row in group]


def _controls(loaded: Loaded) -> dict[tuple[str, str, int], str]:
    """The trial that each cell's times are to be taken beside."""
    return {
        (cell["ablation"], cell["across"], cell["seed"]): cell["trial"]
        for cell in listed(loaded.cells)
        if cell["label"] == loaded.ablations[cell["ablation"]]["control"]
    }


def at(coordinates: dict[str, float]) -> str:
    """Coordinates in one canonical line: `batch 64, length 16`."""
    return ", ".join(f"{name} {coordinates[name]:g}" for name in sorted(coordinates))


def _mean(group: list[dict[str, Any]]) -> float | None:
    samples = [s for row in group if isinstance(row["samples"], list) for s in row["samples"]]
    return sum(samples) / len(samples) if samples else None


def _peak_memory(frame: pd.DataFrame) -> dict[tuple[str, str, str, str], float]:
    """Largest peak in bytes by ablation, crossing, point and label."""
    peaks: dict[tuple[str, str, str, str], float] = {}
    found = frame[(frame["metric"] == "peak_memory") & frame["value"].notna()]
    for row in listed(found):
        key = (row["ablation"], row["across"], at(row["at"]), row["label"])
        peaks[key] = max(peaks.get(key, 0.0), row["value"])
    return peaks
