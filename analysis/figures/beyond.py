"""How the loss goes on past the length that a model was trained at."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator

from analysis import lines, places, style
from analysis.evidence import Evidence
from analysis.units import after_heading

CAPTION = (
    "The loss of a language model where its past is longer than in training, and the perplexity "
    "there over that at the trained length: mean over seeds, with a 95 % interval (Student's t) "
    "where there are three or more; small dots: single seeds. The upright line marks the trained "
    "length; the level one, no loss at all. A cross at the top: positions do not reach so far."
)
MARGINS = lines.MARGINS
RATIO = "perplexity_ratio"


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    return places.panels(evidence, ["past"])


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame.iloc[0]
    lines.draw(frame, ax, "value", ("low", "high"), lines.plain(frame["value"], "log"))
    lines.seeds(frame, ax)
    ax.axvline(1, color=style.INK, linewidth=0.6, zorder=0)
    ax.set_xlim(0.92, ax.get_xlim()[1])
    ax.xaxis.set_major_locator(FixedLocator(sorted({1.0, *frame["x"]})))
    if first["metric"] == RATIO:
        ax.axhline(1, color=style.INK, linewidth=0.6, zorder=0)
    ax.set_xlabel("length, in trained lengths", labelpad=1)
    lines.head(ax, places.title(frame), first["heading"] + after_heading(first["unit"]))
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    return "The loss past the trained length. " + lines.told(frames, _subject, "value")


def _subject(frame: pd.DataFrame) -> str:
    return f"{places.title(frame)}, {frame['heading'].iloc[0]}, in trained lengths"
