"""What removing heads after training costs: the least important first, and at random."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines, places, style
from analysis.evidence import Evidence
from analysis.load import listed
from analysis.units import after_heading

CAPTION = (
    "Perplexity after a share of the heads was removed from a trained model, over that with all of "
    "them: mean over seeds, with a 95 % interval (Student's t) where there are three or more; "
    "small dots: single seeds. Filled marks: the least important heads go first; hollow marks on "
    "dotted lines: heads at random. At the level line nothing is lost."
)
MARGINS = lines.MARGINS
FIRST, RANDOM = "by: importance", "by: random"


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    """A panel for each question and crossing that removed heads by importance."""
    frame = places.points(evidence, ["removed"])
    found = lines.by(frame, *(key for key in places.PANEL if key != "series"))
    return [each for each in found if each[each["series"] == FIRST]["x"].nunique() > 1]


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame[frame["series"] == FIRST]
    lines.draw(first, ax, "value", ("low", "high"), lines.plain(frame["value"], "linear"))
    lines.seeds(first, ax)
    others = frame[(frame["series"] == RANDOM) & frame["value"].notna()]
    for _, own in others.groupby("label", sort=False):
        points = own.sort_values("x")
        look = points.iloc[0]
        ax.plot(
            points["x"], points["value"], linestyle=":", linewidth=0.9, color=look["colour"],
            marker=look["marker"], markersize=3.6, mew=0.7, markerfacecolor="none",
        )  # fmt: skip
        for row in listed(points[points["low"].notna()]):
            ax.plot([row["x"]] * 2, [row["low"], row["high"]], color=row["colour"], lw=0.5)
    ax.axhline(1, color=style.INK, linewidth=0.6, zorder=0)
    ax.set_xlabel("share of heads removed", labelpad=1)
    told = first.iloc[0]
    words = ", ".join(part for part in (told["ablation"], told["across"]) if part)
    lines.head(ax, words, told["heading"] + after_heading(told["unit"]))
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    parts = [own for frame in frames for _, own in frame.groupby("series", sort=False)]
    return "What removing heads costs. " + lines.told(parts, places.title, "value")
