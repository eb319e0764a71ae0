"""How long the next token takes, against how many stand before it."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines
from analysis.curves import curves, walked
from analysis.evidence import Evidence
from analysis.load import listed

CAPTION = (
    "Seconds of the next token against how many were written before it, median of single calls; "
    "bars: 95 % intervals over processes; small ticks above: what one call in twenty exceeds. "
    "kept: earlier tokens are remembered; anew: all are read again, as a prompt is."
)
MARGINS = lines.MARGINS


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    frame = curves(evidence)
    mine = frame[frame["metric"] == "latency"].copy()
    tails = _tails(evidence)
    mine["tail"] = [
        tails.get((r["ablation"], r["label"], r["across"], r["x"], r["series"]), float("nan"))
        for r in listed(mine)
    ]
    return lines.by(mine, "ablation", "across", "series")


def _tails(evidence: Evidence) -> dict[tuple[object, ...], float]:
    """The 95th percentile of each point: the middle one of its processes."""
    frame = evidence.loaded.readings
    found: dict[tuple[object, ...], list[float]] = {}
    for row in listed(frame[(frame["metric"] == "latency_tail") & frame["value"].notna()]):
        place = walked(row["at"])
        if place is not None:
            key = row["ablation"], row["label"], row["across"], place["x"], place["series"]
            found.setdefault(key, []).append(float(row["value"]))
    return {key: sorted(values)[len(values) // 2] for key, values in found.items()}


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    lines.draw(frame, ax, "value", ("low", "high"))
    for row in listed(frame[frame["tail"].notna()]):
        ax.plot(row["x"], row["tail"], marker="_", markersize=5, color=row["colour"], linestyle="")
    lines.head(ax, _title(frame), "time of the next token")
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    return "Seconds of the next token. " + lines.told(frames, _title, "value")


def _title(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return ", ".join(part for part in (first["ablation"], first["across"], first["series"]) if part)
