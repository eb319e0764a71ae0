"""What figures of every kind share: the sheet, its title and note, ticks, and names of lines."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from analysis.contrasts import Evidence
from analysis.load import listed
from analysis.plots import style
from analysis.plots.style import Look, looks
from analysis.sentences import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FACET = "facet"
"""A column whose every value gets an axis of its own."""
LEAST = 3  # seeds for an interval
ONE = {"seeds": "seed", "processes": "process"}


@dataclass(frozen=True)
class Panel:
    """One figure to be drawn: what it shows, what it says of it, and where it belongs."""

    kind: str
    ablation: str | None
    """The table it is about; None for the overview."""
    title: str
    frame: pd.DataFrame
    """A row for each thing drawn; `attrs` says how the axes are scaled and named."""
    subtitle: str = ""
    note: str = ""
    alt: str = ""
    """In words: the title and the two extreme values."""
    size: tuple[float, float] = (style.WIDTH, 2.62)
    """Inches."""
    name: str = ""
    """Of its files, without their endings."""
    plot: Callable[[pd.DataFrame, Axes], object] = field(default=lambda frame, ax: None)


def described(title: str, frame: pd.DataFrame, subtitle: str = "") -> str:
    """A figure in words: its title and its lowest and highest value, with their names."""
    words = ". ".join(part for part in (title, subtitle) if part)
    known = frame[frame["value"].notna()] if "value" in frame else frame.iloc[:0]
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
    """A name in one line of at most so many letters; what is cut is its middle, for a crossing
    stands at the end: `no resi…[depth=2]`."""
    line = " ".join(str(name)[:10_000].split())
    if len(line) <= most:
        return line
    tail = (most - 1) // 2
    return f"{line[: most - 1 - tail]}…{line[-tail:]}"


def heading(*parts: object) -> str:
    """Parts of a title, without the empty ones."""
    return ": ".join(cut(part, 60) for part in parts if part not in ("", None))


def looks_of(evidence: Evidence) -> dict[str, Look]:
    """The look of every variant of a folder, the same in every figure."""
    cells = evidence.loaded.cells
    together = [set(group) for _, group in cells.groupby("ablation", sort=False)["label"]]
    return looks(cells["label"].tolist(), together)


def dressed(frame: pd.DataFrame, evidence: Evidence) -> pd.DataFrame:
    """Its rows with the look of their variants; the baseline of a table is in ink."""
    known = looks_of(evidence)
    each = []
    for row in listed(frame):
        is_baseline = row["label"] == evidence.loaded.ablations[row["ablation"]]["control"]
        each.append(Look(style.INK, "o", style.SOLID) if is_baseline else known[row["label"]])
    return frame.assign(
        colour=[look.colour for look in each],
        marker=[look.marker for look in each],
        dash=[look.dash for look in each],
    )


def counted(frame: pd.DataFrame, of: str = "seeds") -> str:
    """How many seeds its means and intervals stand on: `n = 3 seeds; bars: 95 % intervals`."""
    known = sorted({int(n) for n in frame["n"] if n == n and n > 0})
    if not known:
        return ""
    if known == [1]:
        return f"n = 1 {ONE[of]}, so no interval"
    span = f"{known[0]}" if len(known) == 1 else f"{known[0]}–{known[-1]}"
    planned = set(frame["planned"]) if "planned" in frame else set()
    if len(known) == len(planned) == 1 and planned != set(known):
        span += f" of {planned.pop()}"
    bars = "bars: 95 % intervals" if known[-1] >= LEAST else "too few for an interval"
    return f"n = {span} {of}; {bars}"


def sheet(panel: Panel, kind: type[Figure] | None = None) -> Figure:
    """The panel drawn: its title on top, its axes, its note at the foot."""
    from matplotlib.figure import Figure

    with style.look():
        texts = ((panel.title, style.TITLE, "bold", style.INK),
                 (panel.subtitle, style.SUBTITLE, "normal", style.TEXT))  # fmt: skip
        top = [
            (line, size, weight, colour)
            for text, size, weight, colour in texts
            for line in wrapped(text, panel.size[0], size, weight)[:3]
        ]
        below = wrapped(panel.note, panel.size[0], style.NOTE)[:4]
        more = sum(size for _, size, *_ in top[2:]) + style.NOTE * len(below[1:])
        size = (panel.size[0], panel.size[1] + 1.3 * more / 72)
        figure = (kind or Figure)(figsize=size, layout="constrained")
        parts = [panel.frame]
        if FACET in panel.frame:
            parts = [own for _, own in panel.frame.groupby(FACET, sort=False)]
        across, is_one = abreast(len(parts)), len(parts) == 1
        rows = math.ceil(len(parts) / across)
        axes = figure.subplots(
            rows, across, squeeze=False, sharex=not is_one, sharey=not is_one
        ).ravel()
        for ax, part in zip(axes, parts, strict=False):
            panel.plot(part, ax)
            if FACET in part:
                ax.set_title(cut(part[FACET].iloc[0], 46 // across))
        for ax in axes[len(parts) :]:
            ax.set_axis_off()
        _write_around(figure, top, below)
    return figure


def abreast(axes: int) -> int:
    """How many of so many axes stand beside each other."""
    return 2 if axes == 4 else min(3, axes)


def _write_around(
    figure: Figure, above: list[tuple[str, float, str, str]], below: list[str]
) -> None:
    """Title and subtitle above the axes, the note below them; the layout keeps clear of both."""
    width, height = figure.get_size_inches()
    top, foot = 0.05, 0.05 + 1.3 * style.NOTE / 72 * len(below)
    for line, size, weight, colour in above:
        figure.text(0.05 / width, 1 - top / height, line, va="top", size=size, weight=weight,
                    color=colour)  # fmt: skip
        top += 1.3 * size / 72
    for i, line in enumerate(below):
        at = (0.05 / width, (foot - 1.3 * style.NOTE / 72 * i) / height)
        figure.text(*at, line, va="top", size=style.NOTE, color=style.TEXT)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.0, foot / height, 1.0, 1 - (foot + top) / height), w_pad=0.04, h_pad=0.03)


def wrapped(text: str, inches: float, size: float, weight: str = "normal") -> list[str]:
    """Lines of a text that fit a sheet of this width."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(family=style.RC["font.family"], size=size, weight=weight)

    def wide(line: str) -> float:
        points, *_ = text_to_path.get_text_width_height_descent(line, font, ismath=False)
        return 1.04 * float(points) / 72  # a screen draws letters a little wider

    letters = int(inches * 72 / size * 2.2)
    lines = textwrap.wrap(text, letters)
    while letters > 8 and any(wide(line) > inches - 0.1 for line in lines):
        letters -= 1
        lines = textwrap.wrap(text, letters)
    return lines


def height_of(ax: Axes, y: float) -> float:
    """Where a value stands between the foot (0) and the top (1) of its axis."""
    return float(ax.transAxes.inverted().transform(ax.transData.transform((1.0, y)))[1])


def name_lines(ax: Axes, ends: pd.DataFrame, inches: float) -> None:
    """The name of each line beside the axis, at the height of its last point, none on another."""
    rows = sorted(listed(ends), key=lambda row: height_of(ax, row["value"]))
    if not rows:
        return
    gap = 1.35 * style.TICK / 72 / inches
    heights = [min(max(height_of(ax, row["value"]), 0.0), 1.0) for row in rows]
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + gap)
    over = max(0.0, heights[-1] - 1.0)
    heights[-1] -= over
    for i in reversed(range(len(heights) - 1)):
        heights[i] = min(heights[i], heights[i + 1] - gap)
    for row, height in zip(rows, heights, strict=True):
        ax.plot(
            [1.03, 1.09], [height] * 2, transform=ax.transAxes, clip_on=False, lw=1.2,
            color=row["colour"], ls=(0, row["dash"]) if row["dash"] else "-",
        )  # fmt: skip
        ax.plot(
            1.06, height, marker=row["marker"], ms=3.4, mew=0.6, transform=ax.transAxes,
            clip_on=False, color=row["colour"], mfc="white" if row.get("hollow") else row["colour"],
        )  # fmt: skip
        ax.text(
            1.12, height, cut(row["name"], 21), transform=ax.transAxes, va="center_baseline",
            size=style.TICK, color=style.INK,
        )  # fmt: skip


def put_ticks(ax: Axes, places: Sequence[float], names: Sequence[str]) -> None:
    """Ticks at places that were measured, as many as stand clear of each other."""
    shown: list[tuple[float, str]] = []
    last = -math.inf
    for place, name in sorted(zip(places, names, strict=True)):
        at = float(ax.transAxes.inverted().transform(ax.transData.transform((place, 1.0)))[0])
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
    """`20 ms`, `1.5 GB`, `3 TFLOP`: a number with its unit, and any other number as it is."""
    if unit == "s" and value > 0:
        return duration(value)
    short = {"bytes": "B", "B": "B", "FLOPs": "FLOP", "FLOP": "FLOP"}.get(unit)
    if short is not None:
        size, word = next((each for each in PREFIXES if value >= 0.999 * each[0]), (1.0, ""))
        return f"{value / size:.3g} {word}{short}"
    return number(value)


def scale_values(ax: Axes, unit: str, log: bool) -> None:
    """The value axis: a light grid, a few round numbers in the unit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    ax.grid(axis="y")
    if log:
        ax.set_yscale("log")
        low, high = ax.get_ylim()
        subs = (1.0,) if high / low > 100 else (1.0, 2.0, 5.0) if high / low > 5 else None
        even = MaxNLocator(4, steps=[1, 2, 5, 10])
        ax.yaxis.set_major_locator(LogLocator(10, subs) if subs else even)
    else:
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: amount(value, unit)))
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_ylabel("")
