"""Every variant against its control: mean paired difference, 95 % interval, each seed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis import rows, stats, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.units import after_heading

CAPTION = (
    "Difference of each variant from its control. Dot: mean over seeds; bar: 95 % interval; small "
    "dots: single seeds; hollow: no interval; arrow: the bar goes on. Colour marks what is "
    "resolved after Holm; it is that of the text where nothing was trained, and so nothing is "
    "better. n: pairs, of those planned."
)
MARGINS = rows.MARGINS
COLOURS = {stats.WORSE: style.VERMILION, stats.BETTER: style.BLUE}

MANY = 12  # rows from which the axis is cut to where most of them are
FAR = 4  # times the 80th percentile of seeds: beyond it a row is an arrow


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """One panel a question: only equal units share an axis."""
    panels = evidence.contrasts.groupby(["ablation", "unit"], sort=False)
    return [panel for _, panel in panels if (panel["n"] > 0).any()]


def describe(frames: list[pd.DataFrame]) -> str:
    """Who is better, worse or not resolved, panel by panel."""
    parts = []
    for frame in frames:
        told = [f"{short(row['name'])}: {row['verdict']}" for row in listed(frame)]
        first = frame.iloc[0]
        subject = f"{first['metric_label']} on {first['task']} ({first['ablation']})"
        parts.append(f" For {subject}: {'; '.join(told)}.")
    return "Forest plot of differences from the control." + "".join(parts)


def inches(frame: pd.DataFrame) -> float:
    return rows.inches(_groups(frame), MARGINS)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    """One panel: rows of one metric, grouped by ablation."""
    groups = _groups(frame)
    first = frame.iloc[0]
    low, high = _limits(frame)
    ax.set_xlim(low, high)
    sides = ("better", "worse") if first["better"] == "lower" else ("worse", "better")
    sides = sides if frame["trained"].any() else ("lower", "higher")
    metric = first["metric_label"]
    title = f"{metric[:1].upper()}{metric[1:]}, {first['task']} ({first['split']})"
    rows.label(ax, groups, title, *sides)
    for group in groups:
        for span in group.spans():
            ax.plot([0, 0], span, color=style.INK, linewidth=0.6, zorder=1)
        for row in group.rows:
            if row.data["n"] > 0:
                _draw_row(ax, row.y, row.data, low, high)
    heading = f"variant − control{after_heading(first['unit'])}"
    ax.set_xlabel(style.fit(heading, 2.2), labelpad=2)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(_signed))
    return ax


def _groups(frame: pd.DataFrame) -> list[rows.Group]:
    groups = []
    for (name, control), members in frame.groupby(["ablation", "control"], sort=False):
        group = rows.Group(str(name), str(control))
        for data in listed(members):
            pairs, planned = data["n"], data["planned"]
            count = str(pairs) if pairs == planned else f"{pairs}/{planned}"
            group.rows.append(rows.LabelledRow(data["name"], count, data, _remark(data)))
        groups.append(group)
    return groups


def _remark(data: dict[str, Any]) -> str:
    """What marker and bar cannot show."""
    lost = data["verdict"] if data["n"] == 0 or data["word"] == "undecided: undertrained" else ""
    failures = [
        data["failures"],
        data["control_failures"] and f"control {data['control_failures']}",
    ]
    return lost or "; ".join(failure for failure in failures if failure)


def _limits(frame: pd.DataFrame) -> tuple[float, float]:
    """Room for every seed; for intervals up to as much again on either side.

    Among many rows a few that lie far out do not squeeze the rest: they become arrows.
    """
    seeds = [value for values in frame["differences"] for value in values]
    far = math.inf
    if len(frame) >= MANY and seeds:
        far = FAR * float(np.quantile(np.abs(seeds), 0.8)) or math.inf
    near = [value for value in seeds if abs(value) <= far]
    least, most = min(0.0, *near, 0.0), max(0.0, *near, 0.0)
    room = (most - least) or 1.0
    ends = [end for end in (*frame["low"], *frame["high"]) if not math.isnan(end)]
    least = max(least - room, min([least, *ends]))
    most = min(most + room, max([most, *ends]))
    pad = 0.06 * (most - least or 1.0)
    return least - pad, most + pad


def _draw_row(ax: Axes, y: float, data: dict[str, Any], low: float, high: float) -> None:
    resolved = COLOURS.get(data["word"], style.QUIET)
    colour = resolved if data["trained"] or resolved == style.QUIET else style.INK
    if data["n"] > 1:
        seeds = np.asarray([seed for seed in data["differences"] if low <= seed <= high])
        ax.plot(seeds, np.full(seeds.size, y + 0.3), "o", ms=2, mew=0, color=colour, alpha=0.45)
    if not math.isnan(data["low"]):
        ends = np.clip([data["low"], data["high"]], low, high)
        ax.plot(ends, [y, y], color=colour, linewidth=1.3, solid_capstyle="butt", zorder=2)
        for end, edge, marker in ((data["low"], low, "<"), (data["high"], high, ">")):
            if (end - edge) * (1 if marker == ">" else -1) > 0:
                ax.plot(edge, y, marker, ms=3, mew=0, color=colour, clip_on=False)
    if not low <= data["difference"] <= high:
        edge, side, shift = (high, ">", -6) if data["difference"] > high else (low, "<", 6)
        ax.plot(edge, y, side, ms=4, mew=0, color=colour, clip_on=False, zorder=3)
        ax.annotate(
            _signed(data["difference"], 0),
            (edge, y),
            (shift, 3),
            textcoords="offset points",
            ha="right" if shift < 0 else "left",
            fontsize=style.SMALL,
            color=colour,
        )
        return
    hollow = math.isnan(data["low"])
    ax.plot(
        data["difference"],
        y,
        "o",
        ms=3.4,
        mew=0.9,
        color=colour,
        mfc="none" if hollow else colour,
        zorder=3,
    )


def _signed(value: float, _: int) -> str:
    return "0" if abs(value) < 1e-12 else f"{value:+.3g}".replace("-", "−")
