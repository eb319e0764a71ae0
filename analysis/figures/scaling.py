"""Time against length: every variant of a timed question, on two logarithmic axes."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines
from analysis.curves import curves
from analysis.evidence import Evidence

CAPTION = (
    "Time of one call against the length of its input, geometric mean over processes; bars: 95 % "
    "intervals. A straight line of slope 1 doubles with the length, of slope 2 quadruples. A cross "
    "at the top: the call took too long or needed too much memory."
)
MARGINS = lines.MARGINS
TIMED = {"layer_time": "one layer", "step_time": "one step", "generation_time": "a text"}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = curves(evidence)
    return lines.by(frame[frame["metric"].isin(TIMED)], "ablation", "across", "metric", "series")


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.draw(frame, ax, "value", ("low", "high"))
    lines.head(ax, _title(frame), f"time of {TIMED[frame['metric'].iloc[0]]}")
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    return "Seconds against length. " + lines.told(frames, _title, "value")


def _title(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return ", ".join(part for part in (first["ablation"], first["across"], first["series"]) if part)
