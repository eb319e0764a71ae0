"""What was read off models at several depths, widths or lengths of a source: mean and seeds."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes

from analysis import lines, places
from analysis.evidence import Evidence
from analysis.units import after_heading

CAPTION = (
    "What was read at several places along one coordinate: the mean over seeds, with a 95 % "
    "interval (Student's t) where there are three or more; small dots: single seeds. A cross at "
    "the top: a seed had no number there."
)
MARGINS = lines.MARGINS
HEADINGS = {
    "depth": "depth, in blocks",
    "d_head": "width of a head",
    "source": "source tokens, at most",
}


def panels(evidence: Evidence) -> list[pd.DataFrame]:
    return places.panels(evidence, list(HEADINGS))


def inches(frame: pd.DataFrame) -> float:
    return lines.inches(frame)


def draw(frame: pd.DataFrame, ax: Axes) -> Axes:
    first = frame.iloc[0]
    lines.draw(frame, ax, "value", ("low", "high"), lines.plain(frame["value"], "log"))
    lines.seeds(frame, ax)
    ax.set_xlabel(HEADINGS[first["along"]], labelpad=1)
    lines.head(ax, places.title(frame), first["heading"] + after_heading(first["unit"]))
    return ax


def describe(frames: list[pd.DataFrame]) -> str:
    return "Means over seeds along a coordinate. " + lines.told(frames, _subject, "value")


def _subject(frame: pd.DataFrame) -> str:
    first = frame.iloc[0]
    return f"{places.title(frame)}, {first['heading']} by {HEADINGS[first['along']]}"
