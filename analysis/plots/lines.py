"""Lines along a coordinate: means, seeds, intervals and failures of each variant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analysis.plots import canvas, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw `name`, `x`, `value`, `low`, `high`, `points` and `lost`; `attrs` holds the rest."""
    given = frame.attrs
    scale(frame, ax)
    if given.get("level") is not None:
        ax.axhline(given["level"], color=style.INK, linewidth=0.8, zorder=1)
    if given.get("upright") is not None:
        ax.axvline(given["upright"], color=style.TEXT, linewidth=0.8, ls=":", zorder=1)
    if given.get("floor") is not None:  # the score of an answer that ignores the question
        level, words = given["floor"]
        ax.axhline(level, color=style.TIE, linewidth=1.0, ls=":", zorder=1)
        ax.text(0.02, level, words, transform=ax.get_yaxis_transform(), size=style.NOTE,
                color=style.TEXT, va="bottom")  # fmt: skip
    for _, own in frame.groupby("name", sort=False):
        _line(ax, own.sort_values("x"), "" if given.get("joined") is False else None)
    places = frame.drop_duplicates("x").sort_values("x")
    ticks = places["tick"] if "tick" in places else places["x"].map(canvas.number)
    canvas.put_ticks(ax, places["x"].tolist(), ticks.tolist())
    canvas.scale_values(ax, given.get("unit", ""), given.get("y_log", False))
    ax.set_xlabel(given.get("x_label", ""))
    known = frame[frame["value"].notna()].sort_values("x")
    canvas.legend(ax, known.groupby("name", sort=False).tail(1))
    return ax


def _line(ax: Axes, own: pd.DataFrame, joint: str | None) -> None:
    """Means with intervals, single seeds, failures, and where it crosses the baseline."""
    first, known = own.iloc[0], own[own["value"].notna()]
    colour, top = first["colour"], ax.get_ylim()[1]
    seeds = known[known["points"].map(len) > 1][["x", "points"]].explode("points")
    ax.plot(seeds["x"], seeds["points"], "o", ms=1.8, mew=0, alpha=0.5, color=colour, zorder=2)
    ends = [known["value"] - known["low"], known["high"] - known["value"]]
    ax.errorbar(
        known["x"], known["value"], yerr=np.abs(np.array(ends, dtype=float)), color=colour,
        marker=first["marker"], ms=4.0, mew=0.7, mfc="white" if first.get("hollow") else colour,
        ls=style.dash(first["dash"]) if joint is None else joint, elinewidth=style.BAR, zorder=4,
    )  # fmt: skip
    crosses = [
        lost or [top] * math.isnan(value)
        for lost, value in zip(own["lost"], own["value"], strict=True)
    ]
    lost = own.assign(lost=crosses)[["x", "lost"]].explode("lost").dropna().astype(float)
    failures(ax, lost["x"], lost["lost"], colour)
    if first.get("changes", 0) > 0:
        left, right = ax.get_xlim()
        ends = [min(max(float(first[f"cross_{end}"]), left), right) for end in ("low", "high")]
        ax.axvspan(*ends, color=colour, alpha=0.12, linewidth=0, zorder=0)


def failures(ax: Axes, x: pd.Series, y: pd.Series, colour: str) -> None:
    """A cross for each failed seed, at the top if its value is beyond the axis."""
    low, high = ax.get_ylim()
    inside = y.where((y >= low) & (y <= high), high)
    if len(x):  # an empty line without clipping would take the room left of the axis
        ax.plot(x, inside, "x", ms=4.5, mew=1.0, color=colour, clip_on=False, zorder=5)


def is_wide(values: pd.Series) -> bool:
    """Whether values span more than a decade, so that a logarithmic axis suits them."""
    known = values.dropna()
    return bool(len(known) and known.min() > 0 and known.max() > 10 * known.min())


def height(lines: int) -> float:
    """Height in inches of an axis with room for so many names beside it."""
    return max(1.6, 0.14 * lines)


def scale(frame: pd.DataFrame, ax: Axes) -> None:
    """Set limits that show every value, and intervals and failures as far as twice that range."""
    given = frame.attrs
    log = given.get("y_log", False)
    near = [*frame["value"], *(p for own in frame.get("points", ()) for p in own)]
    near += [level for level in (given.get("level"), (given.get("floor") or (None,))[0]) if level]
    ends = [*frame["low"], *frame["high"], *(p for own in frame.get("lost", ()) for p in own)]
    values, rest = (
        np.array(
            [math.log(v) if log else v for v in each if math.isfinite(v) and (v > 0 or not log)]
        )
        for each in (near, ends)
    )
    least, most = (values.min(), values.max()) if len(values) else (0.0, 1.0)
    room = (most - least) or abs(most) * 0.1 or 1.0
    low = max(least - room, rest.min(initial=least))
    high = min(most + room, rest.max(initial=most))
    pad = 0.07 * (high - low or room)
    ax.set_yscale("log" if log else "linear")
    ax.set_ylim(*(math.exp(end) if log else end for end in (low - pad, high + pad)))
    first, last = float(frame["x"].min()), float(frame["x"].max())
    if given.get("x_log", False) and first > 0:
        span = (last / first) ** 0.07 if last > first else 2.0
        ax.set_xscale("log")
        ax.set_xlim(first / span, last * span)
    else:
        span = 0.07 * (last - first or 1.0)
        ax.set_xlim(first - span, last + span)


def plot_learning(frame: pd.DataFrame, ax: Axes) -> Axes:
    """Draw `name`, `x`, `value`, `low`, `high`: rows with a `seed` thin, those without as means."""
    import seaborn as sns
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    mean, seeds = frame[frame["seed"].isna()], frame[frame["seed"].notna()]
    late = (mean if len(mean) else seeds).query("x > 0")
    late.attrs |= frame.attrs
    scale(late, ax)
    known = seeds[seeds["value"].notna()]
    if len(known):  # or every seed broke down before it was evaluated
        palette = dict(zip(frame["name"], frame["colour"], strict=True))
        sns.lineplot(
            data=known, x="x", y="value", hue="name", palette=palette, units="seed",
            estimator=None, errorbar=None, ax=ax, linewidth=0.5, alpha=0.45, legend=False,
        )  # fmt: skip
    for _, own in mean.groupby("name", sort=False):
        first = own.iloc[0]
        ax.plot(
            own["x"], own["value"], color=first["colour"], zorder=4, marker=first["marker"],
            ms=3.6, mew=0, markevery=max(1, len(own) // 6), ls=style.dash(first["dash"]),
        )  # fmt: skip
        ax.fill_between(own["x"], own["low"], own["high"], color=first["colour"], alpha=0.18,
                        linewidth=0)  # fmt: skip
    lost = seeds[seeds["is_lost"]].assign(is_known=seeds["value"].notna())
    lost = lost.sort_values(["is_known", "x"]).drop_duplicates(["name", "seed"], keep="last")
    for colour, own in lost.groupby("colour"):
        failures(ax, own["x"], own["value"], colour)
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: canvas.number(x)))
    canvas.scale_values(ax, "", frame.attrs.get("y_log", False))
    ax.set_xlabel("steps")
    ends = frame.dropna(subset="value").sort_values("x")
    ends = ends.assign(is_seed=ends["seed"].notna()).sort_values("is_seed", kind="stable")
    last = ends.groupby(["name", "is_seed"], sort=False).tail(1).drop_duplicates("name")
    canvas.legend(ax, last)
    return ax
