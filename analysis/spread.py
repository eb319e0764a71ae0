"""Curves over several seeds: each seed, their mean, a t-interval around it, and what failed.

A frame has a row for each place and seed, and one for each place's mean; `mark` tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.transforms import ScaledTranslation, Transform

from analysis import lines, stats
from analysis.load import listed
from analysis.names import short
from analysis.scores import FINE
from analysis.sentences import number

MEAN, SEED, LOST = "mean", "seed", "failure"
SEEDS = 3  # for an interval
MARKERS = 8  # on a line with a band
APART = 3.0  # points between two variants at the same place
COLUMNS = ["mark", "seed", "status", "x", "place", "value", "low", "high", "n"]


def over_seeds(points: pd.DataFrame, arm: Sequence[str]) -> pd.DataFrame:
    """The points of every seed, and their mean wherever all that ended well have a number.

    What failed is in no mean: it is drawn beside it. What ended well and has no number yet is
    nowhere.
    """
    arms: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in listed(points):
        arms.setdefault(tuple(row[name] for name in arm), []).append(row)
    rows: list[dict[str, Any]] = []
    for own in arms.values():
        rows += _means([row for row in own if _is_fine(row)])
        nothing = {"low": math.nan, "high": math.nan, "n": 1}
        rows += [{**row, "mark": SEED, **nothing} for row in own if _is_fine(row)]
        rows += [{**row, "mark": LOST, **nothing} for row in own if row["status"] != FINE]
    others = [name for name in points if name not in COLUMNS]
    return pd.DataFrame(rows, columns=[*others, *COLUMNS])


def _is_fine(row: Mapping[str, Any]) -> bool:
    return row["status"] == FINE and not math.isnan(row["value"])


def _means(fine: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of one arm, at each place that every one of its seeds has reached, from the left."""
    seeds, found = {row["seed"] for row in fine}, []
    places: dict[float, list[dict[str, Any]]] = {}
    for row in fine:
        places.setdefault(row["x"], []).append(row)
    for x in sorted(places):
        here = places[x]
        if len(here) == len(seeds):
            mean = stats.mean_of([row["value"] for row in here])
            low, high = mean.ends() if mean.n >= SEEDS else (math.nan, math.nan)
            ends = {"value": mean.value, "low": low, "high": high, "n": mean.n}
            found.append({**here[0], "mark": MEAN, "seed": None, **ends})
    return found


def begin(frame: pd.DataFrame, ax: Axes, scales: lines.Scales) -> None:
    """Room for the legend, and an axis that reaches over what ended well."""
    lines.place(frame, ax)
    ax.set_xscale(scales.x)
    ax.set_yscale(scales.y)
    ax.set_ylim(*limits(frame, scales.y == "log"))


def finish(frame: pd.DataFrame, ax: Axes, scales: lines.Scales) -> None:
    lines.ticks(ax, sorted(set(frame["x"])), scales)
    lines.legend(frame, ax)
    ax.set_ylabel("")


def limits(frame: pd.DataFrame, log: bool) -> tuple[float, float]:
    """Around every seed that ended well; around intervals and failures up to as much again."""
    to, back = (math.log, math.exp) if log else (float, float)
    known = frame[frame["value"].notna()]
    fine = known[known["mark"] == SEED]
    near = [to(value) for value in (fine if len(fine) else known)["value"]] or [0.0]
    least, most = min(near), max(near)
    room = (most - least) or abs(most) * 0.1 or 1.0
    rest = [*frame["low"], *frame["high"], *known[known["mark"] == LOST]["value"]]
    far = [to(value) for value in rest if not math.isnan(value) and (value > 0 or not log)]
    least, most = max(least - room, min([least, *far])), min(most + room, max([most, *far]))
    pad = 0.08 * (most - least or room)
    return back(least - pad), back(most + pad)


def bands(frame: pd.DataFrame, ax: Axes) -> None:
    """Lines with a band around them; each seed is a faint line, one that failed ends in a cross."""
    for _, own in frame.groupby("label", sort=False):
        mean, look = own[own["mark"] == MEAN], own.iloc[0]
        for _, seed in own[own["mark"] != MEAN].groupby("seed", sort=False):
            ax.plot(seed["x"], seed["value"], color=look["colour"], linewidth=0.5, alpha=0.4)
            if (seed["mark"] == LOST).any():
                known = seed[seed["value"].notna()]
                cross(ax, (known if len(known) else seed).iloc[-1])
        if len(mean):
            lines.line(mean, ax, "value", markevery=-(-len(mean) // MARKERS))
            ax.fill_between(mean["x"], mean["low"], mean["high"], color=look["colour"],
                            alpha=0.18, linewidth=0)  # fmt: skip


def bars(frame: pd.DataFrame, ax: Axes) -> dict[str, Transform]:
    """Lines with a bar at each place; each seed is a faint dot, one that failed a cross.

    Variants stand side by side, or the bars of one would hide another's; returns where each does.
    """
    labels = list(dict.fromkeys(frame["label"]))
    sides = {}
    for index, label in enumerate(labels):
        own = frame[frame["label"] == label]
        mean, look = own[own["mark"] == MEAN], own.iloc[0]
        side = sides[label] = _beside(ax, APART * (index - (len(labels) - 1) / 2))
        seeds = own[own["mark"] == SEED]
        ax.plot(seeds["x"], seeds["value"], linestyle="", marker="o", markersize=2.2,
                markeredgewidth=0, color=look["colour"], alpha=0.5, transform=side)  # fmt: skip
        for row in listed(mean[mean["low"].notna()]):
            ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=look["colour"],
                    linewidth=0.8, transform=side)  # fmt: skip
        if len(mean):
            lines.line(mean, ax, "value", transform=side)
        for _, row in own[own["mark"] == LOST].iterrows():
            cross(ax, row, side)
    return sides


def _beside(ax: Axes, points: float) -> Transform:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return ax.transData + ScaledTranslation(points / 72, 0, figure.dpi_scale_trans)


def cross(ax: Axes, row: pd.Series, where: Transform | None = None) -> None:
    """At what a failed seed came to; at the top where that is off the axis, or nothing."""
    low, high = ax.get_ylim()
    height = row["value"] if low <= row["value"] <= high else high
    ax.plot(
        row["x"], height, marker="x", markersize=4, markeredgewidth=1.0, color=row["colour"],
        linestyle="", clip_on=False, transform=where or ax.transData, zorder=3,
    )  # fmt: skip


def told(frames: list[pd.DataFrame], subject: Callable[[pd.DataFrame], str]) -> str:
    """Every curve in words: from where to where, and how many seeds failed."""
    parts = []
    for frame in frames:
        arms = frame.groupby("name", sort=False)
        curves = [f"{short(str(name))}: {_curve(own)}" for name, own in arms]
        parts.append(f"{subject(frame)}: {'; '.join(curves)}.")
    return " ".join(parts)


def _curve(own: pd.DataFrame) -> str:
    words = []
    mean = own[own["mark"] == MEAN].sort_values("x")
    if len(mean):
        first, last = mean.iloc[0], mean.iloc[-1]
        words.append(f"{number(first['value'])} at {short(first['place'])}")
        if len(mean) > 1:
            words[-1] += f" to {number(last['value'])} at {short(last['place'])}"
    lost = own[own["mark"] == LOST].drop_duplicates(["across", "seed"])
    seeds = len(own[own["mark"] != MEAN].drop_duplicates(["across", "seed"]))
    if len(lost):
        how = ", ".join(dict.fromkeys(lost["status"]))
        words.append(f"{len(lost)} of {seeds} seeds failed ({how})")
    return ", ".join(words) or "no number"
