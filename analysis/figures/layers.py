"""How large the first gradients are in each block of stacks of several depths."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines, spread
from analysis.curves import with_looks
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import cell_name
from analysis.scores import FINE
from analysis.units import after_heading

CAPTION = (
    "Gradients before the first step, block by block, in stacks of several depths: each line is "
    "the mean over seeds in a stack of one depth, and ends at its last block. There: a 95 % "
    "interval (Student's t) from three seeds on, and single seeds as dots."
)
MARGINS = lines.MARGINS
METRIC = "layer_gradient"
ARM = ["ablation", "label", "across", "depth"]
COLUMNS = [*ARM, "name", "seed", "status", "unit", "x", "place", "value"]


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing that has read them."""
    readings = evidence.loaded.readings
    shown = readings[
        (readings["metric"] == METRIC) & readings["values"].notna() & (readings["status"] == FINE)
    ]
    rows = [place for row in listed(shown) for place in _places(row)]
    frame = spread.over_seeds(pd.DataFrame(rows, columns=COLUMNS), ARM)
    return lines.by(with_looks(frame, evidence), "ablation", "across")


def _places(row: dict[str, Any]) -> list[dict[str, Any]]:
    depth = row["at"]["depth"]
    told = {name: row[name] for name in ("ablation", "label", "across", "seed", "status", "unit")}
    told |= {"depth": depth, "name": cell_name(row["label"], row["across"])}
    return [
        {**told, "x": float(index), "place": f"block {index} of {depth}",
         "value": math.nan if value is None else float(value)}
        for index, value in enumerate(row["values"], start=1)
    ]  # fmt: skip


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    scales = lines.Scales("log", "log", lambda value: f"{value:g}")
    spread.begin(frame, ax, scales)
    for _, stack in frame.groupby(["label", "depth"], sort=False):
        _draw_stack(stack, ax)
    spread.finish(frame, ax, scales)
    lines.ticks(ax, sorted({1.0, *map(float, frame["depth"])}), scales)
    ax.set_xlabel("block, from the input", labelpad=1)
    first = frame.iloc[0]
    title = ", ".join(part for part in (first["ablation"], first["across"]) if part)
    lines.head(ax, title, "gradient norm by block and depth" + after_heading(first["unit"]))
    return ax


def _draw_stack(stack: pd.DataFrame, ax: Axes) -> None:
    """A line through its blocks; the last one has a marker, an interval and every seed."""
    look = stack.iloc[0]
    mean = stack[stack["mark"] == spread.MEAN]
    dash = (0, look["dash"]) if look["dash"] else "-"
    ax.plot(mean["x"], mean["value"], color=look["colour"], linewidth=0.8, linestyle=dash)
    last = stack[stack["x"] == stack["depth"]]
    seeds, end = last[last["mark"] == spread.SEED], last[last["mark"] == spread.MEAN]
    dots = {"linestyle": "", "markeredgewidth": 0, "color": look["colour"]}
    ax.plot(seeds["x"], seeds["value"], marker="o", markersize=2.2, alpha=0.5, **dots)
    for row in listed(end):
        ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=look["colour"], linewidth=0.8)
        ax.plot(row["x"], row["value"], marker=look["marker"], markersize=3.6, **dots)


def describe(frames: list[pd.DataFrame]) -> str:
    """Of each variant the deepest stack, from its first block to its last."""
    deepest = [
        frame[frame["depth"] == frame.groupby("name")["depth"].transform("max")] for frame in frames
    ]
    return "First gradients by block; the deepest stack of each variant. " + spread.told(
        deepest, lambda frame: str(frame["ablation"].iloc[0])
    )
