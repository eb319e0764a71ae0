"""Our shape beside the published one: each over its own control, on one scale, never blended."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullLocator

from analysis import insets, lines, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.names import short
from analysis.published import OURS, THEIRS, comparisons
from analysis.sentences import number

CAPTION = (
    "What was found here (left, filled marks) beside what a paper reports (right, hollow marks), "
    "each relative to its own control and on the same scale: tasks, sizes and budgets differ, so "
    "shapes can be compared and values cannot. Bars: 95 % intervals over seeds, small dots: single "
    "seeds; the papers give single numbers. At the level line it is as good as its control."
)
MARGINS = style.Margins(left=0.42, right=0.1, above=0.36, below=0.0)
PLOT, OVER, GAP = 1.45, 0.16, 0.14  # inches: tall, for the line over each picture, between them
BELOW, SOURCE = 0.42, 0.15  # inches: for the ticks and their heading, and for the source
QUANTITIES = {
    "perplexity": "perplexity over that of its own control",
    "gain": "share of what the control has gained over knowing nothing",
    "past": "perplexity over that at the trained length",
}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    return comparisons(evidence)


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + OVER + PLOT + _under(frame)


def _under(frame: pd.DataFrame) -> float:
    rows = math.ceil(_several(frame)["label"].nunique() / lines.COLUMNS)
    return BELOW + rows * lines.LINE + SOURCE + 0.06


def _several(frame: pd.DataFrame) -> pd.DataFrame:
    """The lines that a legend has to name: none where each side is one line."""
    return frame[frame["quantity"] == "past"]


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    ax.set_axis_off()
    room, _ = insets.size(ax)
    wide = (room - GAP) / 2
    first = frame.iloc[0]
    for column, side in enumerate((OURS, THEIRS)):
        inset = insets.place(ax, column * (wide + GAP), OVER, wide, PLOT)
        own = frame[frame["side"] == side]
        for _, line in own.groupby("label" if len(_several(frame)) else "side", sort=False):
            _line(inset, line, side)
        _scale(inset, frame, own, beside=column == 0)
        who = f"here: {first['ablation']}" if side == OURS else "published"
        insets.title(inset, who, wide)
    _write(ax, OVER + PLOT + BELOW - 0.13, first["across"], 0.5, style.BODY, style.INK)
    _legend(_several(frame), ax)
    source = style.fit(first["source"], style.WIDTH - 0.16, style.SMALL)
    _write(ax, OVER + PLOT + _under(frame) - 0.1, source, None, style.SMALL, style.QUIET)
    lines.head(ax, first["title"], QUANTITIES[first["quantity"]])
    return ax


def _line(ax: Axes, own: pd.DataFrame, side: str) -> None:
    points = own.sort_values("x")
    several = points["quantity"].iloc[0] == "past"
    look = points.iloc[0]
    colour = look["colour"] if several else (style.BLUE if side == OURS else style.INK)
    marker = look["marker"] if several else ("o" if side == OURS else "s")
    joined = "" if points["quantity"].iloc[0] == "gain" else "-"
    ax.plot(
        points["x"], points["value"], linestyle=joined, linewidth=1.0, color=colour, marker=marker,
        markersize=3.8, mew=0 if side == OURS else 0.8,
        markerfacecolor=colour if side == OURS else "none", zorder=3,
    )  # fmt: skip
    for row in listed(points) if side == OURS else []:
        if not math.isnan(row["low"]):
            ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=colour, lw=0.9, zorder=2)
        if len(row["seeds"]) > 1:
            at = [row["x"]] * len(row["seeds"])
            ax.plot(at, row["seeds"], ".", ms=3.4, mew=0, alpha=0.55, color=colour, zorder=1)


def _scale(ax: Axes, frame: pd.DataFrame, own: pd.DataFrame, beside: bool) -> None:
    """The same scale on both sides; ticks where its own points are."""
    quantity = frame["quantity"].iloc[0]
    ends = [*frame["value"], *frame["low"].dropna(), *frame["high"].dropna(), 1.0]
    ends += [seed for seeds in frame["seeds"] for seed in seeds]
    low, high = (min(0.0, *ends) if quantity == "gain" else min(ends)), max(ends)
    if quantity == "past":
        ax.set_yscale("log")
        ax.set_ylim(low / 1.15, high * 1.15)
        ax.yaxis.set_major_locator(LogLocator(10, (1.0, 2.0, 5.0)))
    else:
        pad = 0.07 * (high - low or 1.0)
        ax.set_ylim(low - pad, high + pad)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
    ax.yaxis.set_minor_locator(NullLocator())
    word = (lambda value, _: f"{value:g}") if beside else (lambda value, _: "")
    ax.yaxis.set_major_formatter(FuncFormatter(word))
    ax.axhline(1, color=style.INK, linewidth=0.6, zorder=0)
    _across(ax, frame, own)


def _across(ax: Axes, frame: pd.DataFrame, own: pd.DataFrame) -> None:
    first, last = frame["x"].min(), frame["x"].max()
    if first > 0:
        ax.set_xscale("log", base=2)
        span = (last / first) ** 0.08
        ax.set_xlim(first / span, last * span)
    else:
        room = 0.2 * (last - first)
        ax.set_xlim(first - room, last + room)
    ticks = own.drop_duplicates("x").sort_values("x")
    ax.xaxis.set_major_locator(FixedLocator(ticks["x"].tolist()))
    names = dict(zip(ticks["x"], ticks["tick"], strict=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: names.get(x, "")))
    ax.xaxis.set_minor_locator(NullLocator())


def _legend(frame: pd.DataFrame, ax: Axes) -> None:
    if frame.empty:
        return
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=row["colour"], marker=row["marker"], markersize=3.6, mew=0, lw=1.0,
               label=style.fit(row["label"], 1.2, style.SMALL))
        for row in listed(frame.drop_duplicates("label"))
    ]  # fmt: skip
    wide, tall = insets.size(ax)
    top = 1 - (OVER + PLOT + BELOW) / tall
    ax.legend(
        handles=handles, loc="upper left", ncols=lines.COLUMNS, frameon=False,
        fontsize=style.SMALL, bbox_to_anchor=(-0.3 / wide, top), borderaxespad=0.0,
        handlelength=2.2, columnspacing=1.0, labelspacing=0.25, borderpad=0.0,
    )  # fmt: skip


def _write(ax: Axes, down: float, words: str, x: float | None, size: float, colour: str) -> None:
    """So many inches below the top of the axis: in its middle, or from the panel's left."""
    left = -72 * (MARGINS.left - 0.08) if x is None else 0.0
    ax.annotate(
        words, (x or 0.0, 1), xycoords="axes fraction", xytext=(left, -72 * down), size=size,
        textcoords="offset points", ha="left" if x is None else "center", color=colour,
        annotation_clip=False,
    )  # fmt: skip


def describe(frames: list[pd.DataFrame]) -> str:
    parts = []
    for frame in frames:
        first = frame.iloc[0]
        told = []
        for side, own in frame.groupby("side", sort=False):
            points = [f"{_who(row)} {number(row['value'])}" for row in listed(own)]
            told.append(f"{side}: {'; '.join(points)}")
        subject = f"{first['title']}, {short(first['ablation'])}, {QUANTITIES[first['quantity']]}"
        parts.append(f"{subject}: {'. '.join(told)}. Source: {first['source']}.")
    return "Ours beside the published. " + " ".join(parts)


def _who(row: dict[str, object]) -> str:
    name = short(str(row["name"]))
    return name if name == row["tick"] else f"{name} at {row['tick']}"
