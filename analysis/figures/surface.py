"""How the loss rises around trained weights, along two random directions, for every arm alike."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.ticker import MaxNLocator

from analysis import insets, lines, stats, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name, short
from analysis.scores import FINE
from analysis.sentences import number
from analysis.units import after_heading

CAPTION = (
    "The loss around the trained weights (+) of each arm's first seed, moved along two random "
    "directions, 1 being as far as every row of weights is long. Each panel has one scale, "
    "written at its right; empty: not finite. Curvature: along random directions, mean over seeds; "
    "of an arm that never ended well it is told how it did."
)
MARGINS = style.Margins(left=0.3, right=0.08, above=0.32, below=0.22)
ACROSS = 3  # arms beside each other
GAP, OVER, BETWEEN = 0.1, 0.28, 0.06  # inches: across, for two lines over each, down
SCALE, NUMBERS = 0.08, 0.38  # inches: the bar of colours, and its numbers with the gap before it
CLOSEST = 0.11  # inches: between two numbers of it
LEVELS = 9
TRIAL = ["ablation", "across", "label", "seed", "status", "unit"]
COLUMNS = [*TRIAL, "name", "curvature", "x", "y", "loss"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing; the control stands first."""
    frame = evidence.loaded.readings
    shown = frame[(frame["metric"] == "surface") & frame["values"].notna()]
    found = []
    for (ablation, _), group in shown.groupby(["ablation", "across"], sort=False):
        control = evidence.loaded.ablations[str(ablation)]["control"]
        arms = sorted(_arms(listed(group)), key=lambda row: row["label"] != control)
        rows = [place for row in arms for place in _places(row, _curvature(frame, row))]
        panel = pd.DataFrame(rows, columns=COLUMNS)
        if panel["loss"].notna().any():
            found.append(panel)
    return found


def _arms(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each the first seed that ended well, else the first."""
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["status"] != FINE):
        found.setdefault(row["label"], row)
    return [found[label] for label in dict.fromkeys(row["label"] for row in rows)]


def _curvature(frame: pd.DataFrame, row: dict[str, Any]) -> float:
    """Mean over the seeds of an arm that ended as this one did."""
    own = frame[(frame["metric"] == "curvature") & frame["value"].notna()]
    for name in ("ablation", "label", "across", "status"):
        own = own[own[name] == row[name]]
    return stats.mean_of(own["value"].to_numpy(float)).value


def _places(row: dict[str, Any], curvature: float) -> list[dict[str, Any]]:
    told = {name: row[name] for name in TRIAL}
    told |= {"name": cell_name(row["label"], row["across"]), "curvature": curvature}
    loss_XY = np.array(row["values"], dtype=float)  # None becomes NaN
    return [
        {**told, "x": row["axes"]["x"][i], "y": row["axes"]["y"][j], "loss": loss}
        for (i, j), loss in np.ndenumerate(loss_XY)
    ]


def inches(frame: pd.DataFrame) -> float:
    count = frame["label"].nunique()
    rows = math.ceil(count / ACROSS)
    room = style.WIDTH - MARGINS.left - MARGINS.right
    each = OVER + _side(room, count)
    return MARGINS.above + rows * each + (rows - 1) * BETWEEN + MARGINS.below


def _side(room: float, count: int) -> float:
    """Of a picture, in inches: one is as large as two."""
    across = min(max(2, count), ACROSS)
    return (room - SCALE - NUMBERS - GAP * (across - 1)) / across


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    room, tall = insets.size(ax)
    labels = list(dict.fromkeys(frame["label"]))
    side, levels = _side(room, len(labels)), _levels(frame["loss"].dropna())
    norm = BoundaryNorm(levels, insets.COLOURS.N)
    for index, label in enumerate(labels):
        row, column = divmod(index, ACROSS)
        where = column * (side + GAP), OVER + row * (side + OVER + BETWEEN)
        inset = insets.place(ax, *where, side, side)
        own = frame[frame["label"] == label]
        table = own.pivot(index="y", columns="x", values="loss")
        loss_YX = np.ma.masked_invalid(table.to_numpy(float))
        filled = inset.contourf(
            table.columns, table.index, loss_YX, levels=levels, norm=norm, cmap=insets.COLOURS
        )
        inset.contour(
            table.columns, table.index, loss_YX, levels=levels, colors="white", linewidths=0.3
        )
        inset.plot(0, 0, marker="+", markersize=4, markeredgewidth=0.7, color=style.VERMILION)
        _ticks(inset, below=index + ACROSS >= len(labels), beside=column == 0)
        how = _how(own)
        who = style.fit(str(label), side - style.width(how, style.SMALL), style.SMALL)
        insets.title(inset, who + how, side, above=9)
        insets.title(inset, _bend(own), side, quiet=True)
    right = min(ACROSS, len(labels)) * (side + GAP)
    bar = insets.place(ax, right, OVER, SCALE, tall - OVER)
    scale = ax.get_figure(root=True).colorbar(filled, cax=bar)  # type: ignore[union-attr]
    shown = levels[:: 2 if (tall - OVER) / len(levels) < CLOSEST else 1]
    scale.set_ticks(shown, labels=[f"{level:.3g}" for level in shown])
    scale.minorticks_off()
    scale.ax.tick_params(labelsize=style.SMALL, length=1.5, width=0.4, pad=1)
    scale.outline.set(linewidth=0.4, edgecolor=style.QUIET)
    first = frame.iloc[0]
    words = [part for part in (first["ablation"], first["across"]) if part]
    told = "loss around the trained weights" + after_heading(first["unit"])
    lines.head(ax, ", ".join(words), told)
    return ax


def _ticks(inset: Axes, below: bool, beside: bool) -> None:
    """Numbers that keep inside the picture's own width and height."""
    names = ["−1", "0", "1"]
    inset.set_xticks([-1, 0, 1], names if below else [""] * 3)
    inset.set_yticks([-1, 0, 1], names if beside else [""] * 3)
    for text, side in zip(inset.get_xticklabels(), ("left", "center", "right"), strict=True):
        text.set(horizontalalignment=side)
    for text, side in zip(inset.get_yticklabels(), ("bottom", "center", "top"), strict=True):
        text.set(verticalalignment=side)


def _how(own: pd.DataFrame) -> str:
    """How it ended, if not well."""
    status = own["status"].iloc[0]
    return "" if status == FINE else f" ({status})"


def _bend(own: pd.DataFrame) -> str:
    return f"curvature {number(own['curvature'].iloc[0]) or 'unknown'}"


def _levels(losses: pd.Series) -> list[float]:
    """Of all arms at once: even in the logarithm where they span more than a decade."""
    low, high = float(losses.min()), float(losses.max())
    if low > 0 and high > 10 * low:
        return [float(level) for level in np.geomspace(low, high * (1 + 1e-9), LEVELS)]
    return [float(level) for level in MaxNLocator(LEVELS).tick_values(low, high)]


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        for name, own in frame.groupby("name", sort=False):
            known = own[own["loss"].notna()]
            middle = known[(known["x"] == 0) & (known["y"] == 0)]["loss"]
            told = f"{number(middle.iloc[0])} in the middle, " if len(middle) else ""
            told += f"up to {number(known['loss'].max())}" if len(known) else "not finite"
            whose = f"{short(own['ablation'].iloc[0])}, {short(str(name))}{_how(own)}"
            parts.append(f"{whose}: {told}, {_bend(own)}.")
    return "The loss around trained weights. " + " ".join(parts)
