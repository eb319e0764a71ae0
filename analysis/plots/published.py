"""What was found here beside what a paper reports: each over its own baseline, never blended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pandas as pd

from analysis.evidence import Evidence
from analysis.load import listed
from analysis.plots import canvas, style
from analysis.plots.canvas import FACET, Panel
from analysis.published import OURS, comparisons

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "What was found here (left, filled) beside what a paper reports (right, open diamonds), each "
    "over its own baseline and on one scale: tasks, sizes and budgets differ, so shapes can be "
    "compared and values cannot. Bars: 95 % intervals over seeds; small dots: seeds; papers give "
    "single numbers. The level line is the baseline."
)
QUANTITIES = {
    "perplexity": "perplexity over that of its own baseline",
    "gain": "share of what the baseline has gained over knowing nothing",
    "past": "perplexity over that at the trained length",
}


def panels(evidence: Evidence) -> list[Panel]:
    found = []
    known = canvas.looks_of(evidence)  # of a variant that this folder has; a paper may have others
    elsewhere = style.Look(style.INK, "s", ())
    for frame in comparisons(evidence):
        each = [vars(known.get(label, elsewhere)) for label in frame["label"]]
        frame = frame.assign(**{key: [look[key] for look in each] for key in vars(elsewhere)})
        first, ours = frame.iloc[0], frame["side"] == OURS
        names = frame["side"].map({OURS: "here"}).fillna("published")
        drawn = frame.assign(n=frame["seeds"].map(len), **{FACET: names})
        drawn["name"] = names + ": " + frame["name"].astype(str)
        drawn.attrs["quantity"] = first["quantity"]
        drawn.attrs["x_log"] = bool(frame["x"].min() > 0)
        drawn.attrs["places"] = sorted({(row["x"], row["tick"]) for row in listed(frame)})
        measured = drawn[ours & (drawn["n"] > 1)]  # at its own baseline a ratio is 1 by definition
        found.append(
            Panel(
                kind="published", ablation=str(first["ablation"]), frame=drawn, plot=plot,
                title=canvas.heading(first["ablation"], first["title"]),
                subtitle=f"{QUANTITIES[first['quantity']]}, by {first['across']}",
                note=f"{canvas.counted(measured)}; published: {first['source']}".strip("; "),
                size=(style.WIDTH, 2.75),
            )
        )  # fmt: skip
    return found


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`side`, `label`, `x`, `value`, `low`, `high`, `seeds`: of one side."""
    told, is_ours = frame.attrs, bool((frame["side"] == OURS).all())
    several = told["quantity"] == "past"
    ax.axhline(1, color=style.INK, linewidth=0.8, zorder=1)
    places, names = zip(*told["places"], strict=True)
    if told["x_log"]:
        ax.set_xscale("log")
        room = (max(places) / min(places)) ** 0.1
        ax.set_xlim(min(places) / room, max(places) * room)
    else:
        room = 0.2 * (max(places) - min(places))
        ax.set_xlim(min(places) - room, max(places) + room)
    for _, own in frame.groupby("label" if several else "side", sort=False):
        first, points = own.iloc[0], own.sort_values("x")
        colour = first["colour"] if several else style.INK if is_ours else style.TEXT
        joined = "" if told["quantity"] == "gain" else "-"
        ax.plot(
            points["x"], points["value"], ls=joined, lw=1.0, color=colour, ms=4.2, mew=0.8,
            marker="o" if is_ours else "D", mfc=colour if is_ours else "white", zorder=4,
        )  # fmt: skip
        for row in listed(points):
            if row["n"] >= canvas.LEAST and math.isfinite(row["low"]):
                ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=colour, lw=style.BAR)
            if row["n"] > 1:
                ax.plot([row["x"]] * row["n"], row["seeds"], "o", ms=style.SEED, mew=0, alpha=0.75,
                        color=colour, zorder=3)  # fmt: skip
    canvas.put_ticks(ax, places, [name.replace(" ", "\n") for name in names], facets=2)
    canvas.scale_values(ax, "", log=several)
    if several and not is_ours:
        ends = frame.sort_values("x").drop_duplicates("label", keep="last")
        canvas.name_lines(ax, ends.assign(name=ends["label"], hollow=True), 1.3)
    return ax
