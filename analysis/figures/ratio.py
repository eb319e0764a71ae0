"""How many times the control's time a variant takes, against the length."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

from analysis import lines, style
from analysis.curves import crossings, curves
from analysis.evidence import Evidence
from analysis.load import listed

CAPTION = (
    "Time over the control's at the same place, in the same blocks; bars: 95 % intervals over "
    "processes. Above 1 the control is faster. A triangle on the line marks where a variant and "
    "the control change places, the shaded stretch between which lengths that lies (95 %, for all "
    "lengths together)."
)
MARGINS = lines.MARGINS
TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = curves(evidence)
    known = frame[frame["logs"].map(len) > 0]
    where = crossings(known)
    keys = ["ablation", "across", "label", "metric", "series"]
    joined = known[known["label"] != known["control"]].merge(
        where[[*keys, "changes", "low", "high", "at"]].rename(
            columns={"low": "cross_low", "high": "cross_high", "at": "cross_at"}
        ),
        on=keys,
        how="left",
    )
    return lines.by(joined, "ablation", "across", "metric", "series")


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.draw(frame, ax, "ratio", ("ratio_low", "ratio_high"))
    ax.axhline(1, color=style.INK, linewidth=0.6, zorder=0)
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.8), max(high, 1.25))
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(FixedLocator([tick for tick in TICKS if low <= tick <= high]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    ax.yaxis.set_minor_formatter(NullFormatter())
    for row in listed(frame.drop_duplicates("label")):
        _crossing(ax, row)
    first = frame.iloc[0]
    lines.head(ax, _title(frame), f"{first['metric'].replace('_', ' ')}, over {first['control']}")
    return ax


def _crossing(ax: Axes, row: dict[str, object]) -> None:
    at, changes = row["cross_at"], row["changes"]
    if not isinstance(changes, int | float) or not changes or math.isnan(float(changes)):
        return
    left, right = ax.get_xlim()
    ends = [min(max(float(str(row[end])), left), right) for end in ("cross_low", "cross_high")]
    ax.axvspan(*ends, color=str(row["colour"]), alpha=0.12, linewidth=0, zorder=0)
    if isinstance(at, float) and not math.isnan(at):
        ax.plot(at, 1, marker="v", markersize=5, color=str(row["colour"]), linestyle="", zorder=4)


def describe(frames: list[pd.DataFrame]) -> str:
    return "Time over the control's. " + lines.told(frames, _title, "ratio")


def _title(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return ", ".join(part for part in (first["ablation"], first["across"], first["series"]) if part)
