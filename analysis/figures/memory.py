"""Bytes against length: what a training step keeps for its backward pass."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from analysis import lines
from analysis.curves import curves
from analysis.evidence import Evidence

CAPTION = (
    "Bytes against the length of one sequence: kept from the forward to the backward pass, counted "
    "without weights, or the peak that a fresh process reached. A cross at the top: not "
    "measured, most often because the peak is below what the size of a process shows."
)
MARGINS = lines.MARGINS
BYTES = {"saved_bytes": "bytes kept for the backward pass", "peak_memory": "peak bytes of a step"}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = curves(evidence)
    mine = frame[frame["metric"].isin(BYTES) & ~(frame["value"] <= 0)]
    return lines.by(mine, "ablation", "across", "metric", "series")


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.draw(frame, ax, "value", None)
    ax.yaxis.set_major_formatter(FuncFormatter(_size))
    lines.head(ax, _title(frame), BYTES[frame["metric"].iloc[0]])
    return ax


def _size(value: float, _: object = None) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}B"
    return f"{value:g} B"


def describe(frames: list[pd.DataFrame]) -> str:
    return "Bytes against length. " + lines.told(frames, _title, "value")


def _title(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return ", ".join(part for part in (first["ablation"], first["across"], first["series"]) if part)
