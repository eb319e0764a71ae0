"""Curves with a legend below; over a logarithmic length, as the speed lab has them, or plainly."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    LogLocator,
    MaxNLocator,
    NullFormatter,
    NullLocator,
)

from analysis import style
from analysis.load import listed

PLOT, LINE = 1.75, 0.135  # inches: of the axis, and of a line of the legend
MARGINS = style.Margins(left=0.56, right=0.12, above=0.36, below=0.0)
BELOW = 0.44  # inches from the axis to the legend, with the ticks and their heading
COLUMNS = 2


def inches(frame: pd.DataFrame) -> float:
    return MARGINS.above + PLOT + BELOW + LINE * _rows(frame) + 0.06


def _rows(frame: pd.DataFrame) -> int:
    return -(-frame["label"].nunique() // COLUMNS)


def place(frame: pd.DataFrame, ax: Axes) -> None:
    """Leave room for the legend below the axis, which was given all the height."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    box, tall = ax.get_position(), figure.get_figheight()
    room = (BELOW + LINE * _rows(frame) + 0.06) / tall
    ax.set_position((box.x0, box.y0 + room, box.width, box.height - room))


def duration(seconds: float) -> str:
    """`100 µs`, `10 ms`, `1 s`."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= 0.999 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


@dataclass(frozen=True)
class Scales:
    """How far apart numbers stand on each axis, and how the vertical one writes them."""

    x: Literal["log", "linear"] = "log"
    y: Literal["log", "linear"] = "log"
    word: Callable[[float], str] = duration


TIMES = Scales()


def plain(values: pd.Series, x: Literal["log", "linear"]) -> Scales:
    """Numbers as they are; on a logarithmic axis where they span more than a decade."""
    known = values.dropna()
    is_wide = bool(known.min() > 0 and known.max() > 10 * known.min())
    return Scales(x, "log" if is_wide else "linear", lambda value: f"{value:g}".replace("-", "−"))


def draw(
    frame: pd.DataFrame, ax: Axes, y: str, ends: tuple[str, str] | None, scales: Scales = TIMES
) -> None:
    """A line for each variant, with an interval at every point; what failed hangs at the top."""
    place(frame, ax)
    ax.set_xscale(scales.x)
    ax.set_yscale(scales.y)
    known = frame[frame[y].notna()]
    for _, points in known.groupby("label", sort=False):
        first = points.iloc[0]
        line(points, ax, y)
        for row in listed(points) if ends else []:
            low, high = row[ends[0]], row[ends[1]]  # type: ignore[index]
            if not math.isnan(low):
                ax.plot([row["x"]] * 2, [low, high], color=first["colour"], linewidth=0.8)
    ax.set_xlabel(frame["along"].iloc[0], labelpad=1)
    ax.set_ylabel("")
    ticks(ax, sorted(set(frame["x"])), scales)
    _failures(frame[frame[y].isna()], ax)
    legend(frame, ax)


def line(points: pd.DataFrame, ax: Axes, y: str, **more: Any) -> None:
    """One variant through its points, in its look."""
    import seaborn as sns  # not before something is drawn: it loads pyplot

    first = points.iloc[0]
    sns.lineplot(
        data=points, x="x", y=y, ax=ax, errorbar=None, legend=False, estimator=None,
        color=first["colour"], marker=first["marker"], markersize=3.6, markeredgewidth=0,
        linewidth=1.0, dashes=False, linestyle=(0, first["dash"]) if first["dash"] else "-",
        **more,
    )  # fmt: skip


def ticks(ax: Axes, places: list[float], scales: Scales) -> None:
    """Numbers at the places that were measured, and at a few heights."""
    first, last = places[0], places[-1]
    if scales.x == "log":
        span = last / first if len(places) > 1 else 4
        ax.set_xlim(first / span**0.06, last * span**0.06)
    else:
        room = 0.06 * (last - first or 1)
        ax.set_xlim(first - room, last + room)
    shown = places if len(places) <= 7 else places[::2]
    ax.xaxis.set_major_locator(FixedLocator(shown))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_locator(NullLocator())
    low, high = ax.get_ylim()
    if scales.y == "log":
        ax.yaxis.set_major_locator(LogLocator(10, (1.0,) if high / low > 100 else (1.0, 2.0, 5.0)))
    else:
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], min_n_ticks=2))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: scales.word(value)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.spines["left"].set_visible(True)
    ax.tick_params(axis="y", labelsize=style.SMALL)


def _failures(frame: pd.DataFrame, ax: Axes) -> None:
    """At the top, a cross where a call took too long or the memory was not enough."""
    for row in listed(frame):
        ax.plot(
            row["x"], 0.97, marker="x", markersize=4, markeredgewidth=1.0, color=row["colour"],
            transform=ax.get_xaxis_transform(), clip_on=False, linestyle="",
        )  # fmt: skip


def seeds(frame: pd.DataFrame, ax: Axes) -> None:
    """A small dot for each seed, where the mean of several is drawn."""
    for row in listed(frame):
        if len(row["seeds"]) > 1:
            ax.plot(
                [row["x"]] * len(row["seeds"]), row["seeds"], ".", markersize=3.4, alpha=0.55,
                markeredgewidth=0, color=row["colour"], zorder=1,
            )  # fmt: skip


def legend(frame: pd.DataFrame, ax: Axes) -> None:
    """Below the axis, whose line is whose."""
    each = (style.WIDTH - 0.2) / COLUMNS - 0.36
    handles = [
        Line2D(
            [], [], color=row["colour"], marker=row["marker"], markersize=3.6, markeredgewidth=0,
            linewidth=1.0, linestyle=(0, row["dash"]) if row["dash"] else "-",
            label=style.fit_name(row["label"], each, style.SMALL),
        )
        for row in listed(frame.drop_duplicates("label"))
    ]  # fmt: skip
    figure = ax.get_figure(root=True)
    assert figure is not None
    box = ax.get_position()
    left, top = 0.1 / figure.get_figwidth(), box.y0 - (BELOW - 0.06) / figure.get_figheight()
    names = ax.legend(
        handles=handles, loc="upper left", ncols=COLUMNS, frameon=False, fontsize=style.SMALL,
        bbox_to_anchor=(left, top), bbox_transform=figure.transFigure, borderaxespad=0.0,
        handlelength=2.2, columnspacing=1.0, labelspacing=0.25, borderpad=0.0,
    )  # fmt: skip
    names.set_in_layout(False)


def head(ax: Axes, title: str, below: str) -> None:
    """What a panel is about, and what its vertical axis measures."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    left = -ax.get_position().x0 * figure.get_figwidth() * 72 + 6
    wide = style.WIDTH - 0.16
    bold: dict[str, Any] = {"weight": "bold", "size": style.TITLE}
    _write(ax, (left, 14), style.fit(title, wide, style.TITLE, "bold"), **bold)
    quiet = {"color": style.QUIET, "size": style.SMALL}
    _write(ax, (left, 5), style.fit(below, wide, style.SMALL), **quiet)


def _write(ax: Axes, offset: tuple[float, float], text: str, **look: Any) -> None:
    ax.annotate(
        text, (0, 1), xycoords="axes fraction", xytext=offset, textcoords="offset points",
        annotation_clip=False, ha="left", **look,
    )  # fmt: skip


def by(frame: pd.DataFrame, *keys: str) -> list[pd.DataFrame]:
    """A panel for each, without those that show nothing."""
    panels = [panel.copy() for _, panel in frame.groupby(list(keys), sort=False)]
    return [panel for panel in panels if panel["value"].notna().any()]


def told(frames: list[pd.DataFrame], subject: Callable[[pd.DataFrame], str], value: str) -> str:
    """Every curve in words: from where to where."""
    from analysis.names import short
    from analysis.sentences import number

    parts = []
    for frame in frames:
        lines = []
        for name, points in frame.groupby("name", sort=False):
            known = points[points[value].notna()].sort_values("x")
            if known.empty:
                lines.append(f"{short(str(name))}: {short(str(points['reason'].iloc[0]))}")
                continue
            first, last = known.iloc[0], known.iloc[-1]
            lines.append(
                f"{short(str(name))}: {number(first[value])} at {first['x']:g} to "
                f"{number(last[value])} at {last['x']:g}"
            )
        parts.append(f"{subject(frame)}: {'; '.join(lines)}.")
    return " ".join(parts)
