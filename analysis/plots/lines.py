"""A value along a coordinate: one line for each variant, its seeds, intervals and failures."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.load import listed
from analysis.plots import canvas, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CAPTION = (
    "A value along a coordinate. Line: mean; bar: 95 % interval, from three seeds or processes on; "
    "small dots: single seeds; ×: a seed that failed, or no number, on top. Shaded: between which "
    "lengths a line crosses the baseline, by the 95 % band of their ratio."
)


def plot(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`name`, `x`, `value`, `low`, `high`, `points`, `lost`; the rest is in `attrs`."""
    told = frame.attrs
    known = frame[frame["value"].notna()]
    scales(frame, ax)
    if told.get("level") is not None:
        ax.axhline(told["level"], color=style.INK, linewidth=0.8, zorder=1)
    if told.get("upright") is not None:
        ax.axvline(told["upright"], color=style.TEXT, linewidth=0.8, ls=":", zorder=1)
    if told.get("floor") is not None:  # what can be had without looking
        level, words = told["floor"]
        ax.axhline(level, color=style.TIE, linewidth=1.0, ls=":", zorder=1)
        ax.text(0.02, level, words, transform=ax.get_yaxis_transform(), size=style.NOTE,
                color=style.TEXT, va="bottom")  # fmt: skip
    for name in dict.fromkeys(frame["name"]):
        own = known[known["name"] == name].sort_values("x")
        if len(own):
            _line(ax, own, told.get("joined", True))
            _bars(ax, own)
        _failures(ax, frame[frame["name"] == name])
        _crossing(ax, own)
    ends = known.sort_values("x").groupby("name", sort=False).tail(1)
    places = frame.drop_duplicates("x").sort_values("x")
    ticks = places["tick"] if "tick" in places else [canvas.number(x) for x in places["x"]]
    canvas.put_ticks(ax, places["x"].tolist(), list(ticks))
    canvas.scale_values(ax, told.get("unit", ""), told.get("y_log", False))
    ax.set_xlabel(told.get("x_label", ""))
    canvas.name_lines(ax, ends, told.get("inches", 1.6))
    return ax


def is_wide(values: pd.Series) -> bool:
    """Whether a logarithmic axis serves values better: they span more than a decade."""
    known = values.dropna()
    return bool(len(known) and known.min() > 0 and known.max() > 10 * known.min())


def inches(lines: int) -> float:
    """Of the axis itself: room for the names of so many lines beside it."""
    return max(1.6, 0.14 * lines)


def scales(frame: pd.DataFrame, ax: Axes) -> None:
    """Over all that ended well; over intervals and failures up to as much again."""
    log = frame.attrs.get("y_log", False)
    to, back = (math.log, math.exp) if log else (float, float)

    def told(values: Any) -> list[float]:
        return [to(v) for v in values if math.isfinite(v) and (v > 0 or not log)]

    levels = [frame.attrs.get("level"), (frame.attrs.get("floor") or (None,))[0]]
    near = told([*frame["value"], *(p for own in frame["points"] for p in own)])
    near += told(level for level in levels if level is not None)
    rest = told([*frame["low"], *frame["high"], *(p for own in frame["lost"] for p in own)])
    least, most = min(near, default=0.0), max(near, default=1.0)
    room = (most - least) or abs(most) * 0.1 or 1.0
    least = max(least - room, min([least, *rest]))
    most = min(most + room, max([most, *rest]))
    pad = 0.07 * (most - least or room)
    if log:
        ax.set_yscale("log")
    ax.set_ylim(back(least - pad), back(most + pad))
    first, last = float(frame["x"].min()), float(frame["x"].max())
    if frame.attrs.get("x_log", False) and first > 0:
        span = (last / first) ** 0.07 if last > first else 2.0
        ax.set_xscale("log")
        ax.set_xlim(first / span, last * span)
    else:
        span = 0.07 * (last - first or 1.0)
        ax.set_xlim(first - span, last + span)


def _line(ax: Axes, own: pd.DataFrame, joined: bool) -> None:
    import seaborn as sns

    first = own.iloc[0]
    face = "white" if first.get("hollow") else first["colour"]
    sns.lineplot(
        data=own, x="x", y="value", estimator=None, errorbar=None, legend=False, ax=ax,
        color=first["colour"], linestyle=_dash(first) if joined else "",
        marker=first["marker"], markersize=4.0, markeredgecolor=first["colour"],
        markeredgewidth=0.7, markerfacecolor=face, zorder=4,
    )  # fmt: skip


def _dash(row: pd.Series) -> Any:
    return (0, row["dash"]) if row["dash"] else "-"


def _bars(ax: Axes, own: pd.DataFrame) -> None:
    """Intervals and single seeds."""
    for row in listed(own):
        if row["n"] >= canvas.LEAST and math.isfinite(row["low"]):
            ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=row["colour"], lw=style.BAR,
                    zorder=3)  # fmt: skip
        if len(row["points"]) > 1:
            ax.plot([row["x"]] * len(row["points"]), row["points"], "o", ms=style.SEED, mew=0,
                    alpha=0.75, color=row["colour"], zorder=3)  # fmt: skip


def _failures(ax: Axes, own: pd.DataFrame) -> None:
    low, high = ax.get_ylim()
    for row in listed(own):
        lost = [value if low <= value <= high else high for value in row["lost"]]
        lost += [high] if math.isnan(row["value"]) and not lost else []
        for value in lost:
            ax.plot(row["x"], value, "x", ms=4.5, mew=1.0, color=row["colour"], clip_on=False,
                    zorder=5)  # fmt: skip


def _crossing(ax: Axes, own: pd.DataFrame) -> None:
    """Where a line and the baseline change places: shaded between the ends of its interval."""
    first = own.iloc[0] if len(own) and "changes" in own else {}
    if not len(first) or not first["changes"] > 0:
        return
    left, right = ax.get_xlim()
    ends = [min(max(float(first[end]), left), right) for end in ("cross_low", "cross_high")]
    ax.axvspan(*ends, color=first["colour"], alpha=0.12, linewidth=0, zorder=0)


def plot_learning(frame: pd.DataFrame, ax: Axes) -> Axes:
    """`name`, `x`, `value`, `low`, `high`; rows with a `seed` are its, those without the mean."""
    import seaborn as sns
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    mean, seeds = frame[frame["seed"].isna()], frame[frame["seed"].notna()]
    late = (mean if len(mean) else seeds).query("x > 0")
    told = late.assign(points=[[]] * len(late), lost=[[]] * len(late))
    told.attrs |= frame.attrs
    scales(told, ax)
    low, high = ax.get_ylim()
    for name, own in frame.groupby("name", sort=False):
        first, middle = own.iloc[0], mean[mean["name"] == name]
        each = seeds[seeds["name"] == name]
        if each["value"].notna().any():  # or all its seeds broke down before they were evaluated
            sns.lineplot(
                data=each, x="x", y="value", units="seed", estimator=None, errorbar=None, ax=ax,
                color=first["colour"], linewidth=0.5, alpha=0.45, legend=False,
            )  # fmt: skip
        ax.plot(
            middle["x"], middle["value"], color=first["colour"], zorder=4, marker=first["marker"],
            ms=3.6, mew=0, markevery=max(1, len(middle) // 6),
            ls=_dash(first),
        )  # fmt: skip
        ax.fill_between(middle["x"], middle["low"], middle["high"], color=first["colour"],
                        alpha=0.18, linewidth=0)  # fmt: skip
        for _, lost in each[each["is_lost"]].groupby("seed", sort=False):
            row = lost.dropna(subset="value").sort_values("x").tail(1)
            x, y = (row["x"].iloc[0], row["value"].iloc[0]) if len(row) else (0.0, high)
            ax.plot(x, y if low <= y <= high else high, "x", ms=4.5, mew=1.0, zorder=5,
                    color=first["colour"], clip_on=False)  # fmt: skip
    ends = frame.dropna(subset="value").sort_values(["seed", "x"], na_position="first")
    ends = ends.groupby(["name", ends["seed"].isna()], sort=False).tail(1)
    ends = ends.sort_values("seed", na_position="first").drop_duplicates("name")
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: canvas.number(x)))
    canvas.scale_values(ax, "", frame.attrs.get("y_log", False))
    ax.set_xlabel("steps")
    canvas.name_lines(ax, ends, frame.attrs.get("inches", 1.6))
    return ax
