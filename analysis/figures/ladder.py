"""What each piece is worth: how much worse the whole gets where one piece is left out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import rows, stats, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.sentences import bounds, number
from analysis.units import after_heading

CAPTION = (
    "What leaving out one piece costs, the dearest first: to the right of the line the model is "
    "worse without it. Bar: mean over seeds; line: 95 % interval (Student's t); dots: "
    "single seeds. Solid orange: worse, solid blue: better (after Holm); hollow: not resolved. A "
    "bar that would be too long is cut and told in numbers. Pieces whose seeds all failed stand "
    "on top, with how they ended."
)
MARGINS = rows.MARGINS
QUESTIONS = ("ladder",)  # those that take one piece away at a time
COLOURS = {stats.WORSE: style.VERMILION, stats.BETTER: style.BLUE}
FAR = 3  # times the median cost: bars beyond it are cut, or they would squeeze the others


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each table of such a question and each crossing."""
    known = evidence.loaded.ablations
    frame = evidence.contrasts
    asked = frame[frame["ablation"].isin([n for n in known if known[n]["name"] in QUESTIONS])]
    found = [_costs(own) for _, own in asked.groupby(["ablation", "across"], sort=False)]
    return [own for own in found if (own["n"] > 0).any()]


def _costs(own: pd.DataFrame) -> pd.DataFrame:
    """Differences turned so that a positive one is a cost, the largest first."""
    sign = 1 if own["better"].iloc[0] == "lower" else -1
    low, high = (sign * own[end] for end in ("low", "high"))
    costs = own.assign(
        cost=sign * own["difference"],
        cost_low=np.minimum(low, high),
        cost_high=np.maximum(low, high),
        costs=[[sign * value for value in values] for values in own["differences"]],
    )
    order = costs["cost"].where(costs["n"] > 0, math.inf)
    dearest = order.sort_values(ascending=False, kind="stable").index
    return costs.loc[dearest].reset_index(drop=True)


def inches(frame: pd.DataFrame) -> float:
    return rows.inches([_group(frame)], MARGINS)


def _group(frame: pd.DataFrame) -> rows.Group:
    first = frame.iloc[0]
    group = rows.Group(str(first["ablation"]), str(first["control"]), str(first["across"]))
    for data in listed(frame):
        pairs = str(data["n"]) if data["n"] == data["planned"] else f"{data['n']}/{data['planned']}"
        lost = data["verdict"] if data["n"] == 0 else data["failures"]
        group.rows.append(rows.LabelledRow(data["label"], pairs, data, lost))
    return group


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    group, first = _group(frame), frame.iloc[0]
    low, high = _limits(frame)
    ax.set_xlim(low, high)
    metric = first["metric_label"]
    title = f"What each piece is worth: {metric}, {first['task']}"
    rows.label(ax, [group], title, "better without", "worse without")
    for span in group.spans():
        ax.plot([0, 0], span, color=style.INK, linewidth=0.6, zorder=3)
    for row in group.rows:
        if row.data["n"] > 0:
            _draw_row(ax, row.y, row.data, low, high)
    ax.set_xlabel(style.fit(f"cost: {metric}{after_heading(first['unit'])}", 1.8), labelpad=2)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))
    return ax


def _limits(frame: pd.DataFrame) -> tuple[float, float]:
    """From zero over the costs; one that lies far out is cut."""
    costs = frame[frame["n"] > 0]
    sizes = costs["cost"].abs()
    far = FAR * float(sizes.median()) or math.inf
    near = sizes[sizes <= far].max() if len(sizes) > 3 else sizes.max()
    seeds = [value for values in costs["costs"] for value in values]
    ends = [end for end in (*costs["cost_low"], *costs["cost_high"]) if not math.isnan(end)]
    reach = 1.4 * float(near) or 1.0
    least, most = max(-reach, min([0.0, *seeds, *ends])), min(reach, max([0.0, *seeds, *ends]))
    pad = 0.06 * (most - least or 1.0)
    return least - pad, most + pad


def _draw_row(ax: Axes, y: float, data: dict[str, Any], low: float, high: float) -> None:
    colour = COLOURS.get(data["word"], style.QUIET)
    is_resolved = data["word"] in COLOURS
    end = min(max(data["cost"], low), high)
    ax.barh(
        y, end, height=0.62, zorder=1, linewidth=0.7, edgecolor=colour,
        facecolor=(*to_rgb(colour), 0.35) if is_resolved else "none",
    )  # fmt: skip
    is_cut = data["cost"] != end
    seeds = [] if is_cut else [seed for seed in data["costs"] if low <= seed <= high]
    ax.plot(seeds, [y] * len(seeds), "o", ms=2.2, mew=0, color=colour, alpha=0.7, zorder=4)
    if not (math.isnan(data["cost_low"]) or is_cut):
        ends = np.clip([data["cost_low"], data["cost_high"]], low, high)
        ax.plot(ends, [y, y], color=colour, linewidth=1.2, solid_capstyle="butt", zorder=2)
    if is_cut:
        side = ">" if data["cost"] > high else "<"
        ax.plot(end, y, side, ms=4, mew=0, color=colour, clip_on=False, zorder=5)
        ax.annotate(
            _cut(data), (end, y), (-6 if side == ">" else 6, 0),
            textcoords="offset points", ha="right" if side == ">" else "left",
            va="center_baseline", fontsize=style.SMALL, color=style.INK, zorder=6,
        )  # fmt: skip


def _cut(data: dict[str, Any]) -> str:
    """What a bar that is cut would have shown."""
    interval = bounds(data["cost_low"], data["cost_high"])
    return _signed(data["cost"], 0) + (f" ({interval})" if interval else "")


def _signed(value: float, _: int) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:+.3g}".replace("-", "−")


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        told = [f"{short(row['name'])}: {_told(row)}" for row in listed(frame)]
        parts.append(f" {short(frame['ablation'].iloc[0])}: {'; '.join(told)}.")
    return "What leaving out each piece costs, the dearest first." + "".join(parts)


def _told(row: dict[str, Any]) -> str:
    if row["n"] == 0:
        return str(row["verdict"])
    interval = bounds(row["cost_low"], row["cost_high"])
    return f"{number(row['cost'])}{f' ({interval})' if interval else ''}, {row['verdict']}"
