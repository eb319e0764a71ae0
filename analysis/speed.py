"""How much longer a step takes than the control's, from times paired in the same blocks."""

from __future__ import annotations

import math
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
    frame = loaded.readings
    timed = frame[frame["metric"] == "step_time"]
    memory = _peak_memory(frame)
    controls = _controls(loaded)
    rows: list[dict[str, Any]] = []
    for row in listed(timed):
        ablation = loaded.ablations[row["ablation"]]
        control = controls.get((row["ablation"], row["across"], row["seed"]))
        if isinstance(row["against"], str) and row["against"] != control:
            continue  # timed beside the control of another question
        same = row["label"] == ablation["control"]
        ratio, reason = _ratio(row)
        floor = _floor(row)
        place = (row["ablation"], row["across"], at(row["at"]))
        rows.append(
            {
                **{name: row[name] for name in CELL},
                "task": ablation["task"],
                "control": ablation["control"],
                "name": cell_name(row["label"], row["across"]),
                "at": at(row["at"]),
                "session": row["session"],
                "machine": environment.machine(loaded.records[row["trial"]], row["session"]),
                **vars(ratio),
                "seconds": _mean(row["samples"]),
                "floor": math.exp(floor),
                "verdict": SAME if same else stats.speed_verdict(ratio, floor),
                "reason": reason,
                "peak_memory": memory.get((*place, row["label"]), math.nan),
                "control_peak_memory": memory.get((*place, ablation["control"]), math.nan),
            }
        )
    return pd.DataFrame(rows, columns=COLUMNS)


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


def _mean(samples: Any) -> float | None:
    return sum(samples) / len(samples) if isinstance(samples, list) and samples else None


def _ratio(row: dict[str, Any]) -> tuple[stats.Ratio, str]:
    reference = row["reference"]
    if not isinstance(row["samples"], list):
        return stats.Ratio(0), str(row["reason"])
    if not isinstance(reference, list):
        return stats.Ratio(0), "timed without a reference"
    try:
        return stats.timing_ratio(row["samples"], reference), ""
    except ValueError as error:
        return stats.Ratio(0), str(error)


def _floor(row: dict[str, Any]) -> float:
    """How far apart the reference and its twin were in the same blocks."""
    if not isinstance(row["twin"], list) or not isinstance(row["reference"], list):
        return math.nan
    try:
        return stats.noise_floor(stats.timing_ratio(row["twin"], row["reference"]))
    except ValueError:
        return math.nan


def _peak_memory(frame: pd.DataFrame) -> dict[tuple[str, str, str, str], float]:
    """Largest peak in bytes by ablation, crossing, point and label."""
    peaks: dict[tuple[str, str, str, str], float] = {}
    found = frame[(frame["metric"] == "peak_memory") & frame["value"].notna()]
    for row in listed(found):
        key = (row["ablation"], row["across"], at(row["at"]), row["label"])
        peaks[key] = max(peaks.get(key, 0.0), row["value"])
    return peaks
