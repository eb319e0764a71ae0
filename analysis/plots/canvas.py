"""Parts that all figures share: the sheet with title and note, names, ticks and legends."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis import stats
from analysis.contrasts import Evidence
from analysis.load import Row
from analysis.plots import style
from analysis.plots.style import Look, looks
from analysis.wording import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACET = "facet"
"""The column that splits a frame over several axes."""
ONE = {"seeds": "seed", "processes": "process"}


@dataclass(frozen=True)
class Panel:
    """One figure to be drawn: its data, its words and its experiment."""

    kind: str
    experiment: str | None
    """Its experiment; None for the overview."""
    title: str
    frame: pd.DataFrame
    """A row for each thing drawn; `attrs` holds scales and names of the axes."""
    subtitle: str = ""
    note: str = ""
    alt: str = ""
    """Alternative text: the title and the two extreme values."""
    size: tuple[float, float] = (style.WIDTH, 2.62)
    """Inches."""
    name: str = ""
    """Name of its files without the suffix."""
    plot: Callable[[pd.DataFrame, Axes], object] = field(default=lambda frame, ax: None)


def described(panel: Panel) -> str:
    """Alternative text: the title, and the lowest and highest value with their names."""
    words = ". ".join(part for part in (panel.title, panel.subtitle) if part)
    known = panel.frame[panel.frame["value"].notna()]
    if known.empty:
        return f"{words}. No values yet."
    ends = [known.loc[known["value"].idxmin()], known.loc[known["value"].idxmax()]]
    places = [f" at {row['tick']}" if row.get("tick") else "" for row in ends]
    low, high = (
        f"{cut(row['name'] + place, 60)} {row['value']:.3g}"
        for row, place in zip(ends, places, strict=True)
    )
    return f"{words}. Lowest: {low}; highest: {high}."


def cut(name: object, most: int) -> str:
    """A name in one line, cut in the middle because factors are at the end: `no resi…[depth=2]`."""
    line = " ".join(str(name)[:10_000].split())
    if len(line) <= most:
        return line
    tail = (most - 1) // 2
    return f"{line[: most - 1 - tail]}…{line[-tail:]}"


def heading(*parts: object) -> str:
    """Parts of a title, without the empty ones."""
    return ": ".join(cut(part, 60) for part in parts if part not in ("", None))


def dressed(frame: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Add the look of each variant to its rows; the baseline of an experiment is in ink."""
    known = looks_of(evidence)
    baselines = {name: entry["baseline"] for name, entry in evidence.loaded.experiments.items()}
    pairs = zip(frame["experiment"], frame["variant"], strict=True)
    each = [style.BASELINE if label == baselines[name] else known[label] for name, label in pairs]
    return with_looks(frame, each)


def looks_of(evidence: Evidence) -> dict[str, Look]:
    """The look of every variant of a folder, the same in every figure."""
    trials = evidence.loaded.trials
    together = [set(group) for _, group in trials.groupby("experiment", sort=False)["variant"]]
    return looks(trials["variant"].tolist(), together)


def with_looks(frame: pd.DataFrame, each: Sequence[Look]) -> pd.DataFrame:
    return frame.assign(**{name: [look[name] for look in each] for name in style.BASELINE})


def mean_of(values: Iterable[float]) -> Row:
    """Mean, interval and count of some seeds."""
    mean = stats.mean_of(list(values))
    low, high = mean.ends()
    return {"value": mean.value, "low": low, "high": high, "n": mean.n}


def counted(frame: pd.DataFrame, of: str = "seeds") -> str:
    """How many seeds are behind the means: `n = 3 seeds; bars: 95 % intervals`."""
    known = sorted(frame["n"][frame["n"] > 0].astype(int).unique().tolist())
    if not known:
        return ""
    if known == [1]:
        return f"n = 1 {ONE[of]}, so no interval"
    span = f"{known[0]}" if len(known) == 1 else f"{known[0]}–{known[-1]}"
    planned = set(frame["planned"]) if "planned" in frame else set()
    if len(known) == len(planned) == 1 and planned != set(known):
        span += f" of {planned.pop()}"
    bars = "bars: 95 % intervals" if known[-1] >= stats.LEAST else "too few for an interval"
    return f"n = {span} {of}; {bars}"


# --- the sheet


def draw(panel: Panel, kind: type[Figure] | None = None) -> Figure:
    """Draw a panel as a Figure or a subclass of it: titles above its axes, the note below."""
    from matplotlib.figure import Figure

    width, height = panel.size
    title, subtitle, note = (
        textwrap.wrap(text, int(width * 72 / size / wide))[:4]
        for text, size, wide in (
            (panel.title, style.TITLE, 0.62),
            (panel.subtitle, style.SUBTITLE, 0.54),
            (panel.note, style.NOTE, 0.54),
        )
    )
    with style.look():
        height += 0.12 * (max(len(title) + len(subtitle) - 2, 0) + max(len(note) - 1, 0))
        figure = (kind or Figure)(figsize=(width, height), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.03)  # type: ignore[union-attr, call-arg]
        figure.suptitle("\n".join(title), x=0.01, ha="left", size=style.TITLE, weight="bold",
                        color=style.INK)  # fmt: skip
        figure.supxlabel("\n".join(note), x=0.01, ha="left", size=style.NOTE, color=style.TEXT)
        inner: Any = figure.subfigures()
        inner.suptitle("\n".join(subtitle), x=0.01, ha="left", size=style.SUBTITLE,
                       color=style.TEXT)  # fmt: skip
        parts = [panel.frame]
        if FACET in panel.frame:
            parts = [own for _, own in panel.frame.groupby(FACET, sort=False)]
        across, share = abreast(len(parts)), len(parts) > 1
        rows = math.ceil(len(parts) / across)
        axes = inner.subplots(rows, across, squeeze=False, sharex=share, sharey=share).ravel()
        for ax, part in zip(axes, parts, strict=False):
            panel.plot(part, ax)
            if FACET in part:
                ax.set_title(cut(part[FACET].iloc[0], 46 // across))
        for ax in axes[len(parts) :]:
            ax.set_axis_off()
    return figure


def abreast(axes: int) -> int:
    """How many axes share a row."""
    return 2 if axes == 4 else min(3, axes)


def legend(ax: Axes, ends: pd.DataFrame) -> None:
    """Names of the lines beside the axis, in the order of their last values."""
    from matplotlib.lines import Line2D

    rows = ends.sort_values("value", ascending=False).to_dict("records")
    handles = [
        Line2D([], [], color=row["colour"], ls=style.dash(row["dash"]), marker=row["marker"],
               lw=1.2, ms=3.4, mew=0.6, mfc="white" if row.get("hollow") else row["colour"])
        for row in rows
    ]  # fmt: skip
    ax.legend(
        handles, [cut(row["name"], 21) for row in rows], loc="center left", frameon=False,
        bbox_to_anchor=(1.0, 0.5), fontsize=style.TICK, handlelength=1.8, handletextpad=0.5,
    )  # fmt: skip


def put_ticks(ax: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Ticks where something was measured, as many as fit without overlap."""
    to_axes = ax.transData + ax.transAxes.inverted()
    shown, last = [], -math.inf
    for place, name in sorted(zip(places, names, strict=True)):
        at = to_axes.transform((place, ax.get_ylim()[1]))[0]
        room = 0.045 * max(map(len, name.split("\n"))) / 2
        if at - room >= last:
            shown.append((place, name))
            last = at + room + 0.03
    ax.set_xticks([place for place, _ in shown], [name for _, name in shown])
    ax.set_xticks([], minor=True)


def number(value: float) -> str:
    """`2,048`, `0.125`, `−3`."""
    text = f"{value:,.0f}" if abs(value) >= 1000 and value == int(value) else f"{value:.4g}"
    return text.replace("-", "−")


def signed(value: float, _: object = None) -> str:
    """`+0.12`, `−3`, `0`."""
    return "0" if abs(value) < 1e-12 else f"{value:+.3g}".replace("-", "−")


PREFIXES = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def amount(value: float, unit: str) -> str:
    """`20 ms`, `1.5 GB`, `3 TFLOP`; a number in another unit is written alone."""
    if unit == "s" and value > 0:
        return duration(value)
    short = {"bytes": "B", "B": "B", "FLOPs": "FLOP", "FLOP": "FLOP"}.get(unit)
    if short is not None:
        size, word = next((each for each in PREFIXES if value >= 0.999 * each[0]), (1.0, ""))
        return f"{value / size:.3g} {word}{short}"
    return number(value)


def scale_values(ax: Axes, unit: str, log: bool) -> None:
    """Give the value axis a light grid and a few round numbers in its unit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    locator: Any = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10])
    if log:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        if high / low > 5:
            locator = LogLocator(10, (1.0,) if high / low > 100 else (1.0, 2.0, 5.0))
    ax.grid(axis="y")
    ax.yaxis.set_major_locator(locator)
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value, unit)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("")
