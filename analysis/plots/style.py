"""Colours by role, one look for each variant, and matplotlib's settings."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

INK, TEXT, RULE, BAND = "#1A1A1A", "#5F5F5F", "#D9D9D6", "#F1F1EE"
"""Baseline and titles; ticks and notes; grid; shading."""
WORSE, BETTER, TIE = "#C8430F", "#1F5FAE", "#8C8C8C"
"""Only for differences from a baseline."""
AMBER, PLUM, TEAL = "#C08A00", "#8A3480", "#3DA593"
"""Only for curves, where the baseline is in ink."""
SOLID, DASHED, DOTTED = (), (4.0, 1.5), (1.0, 1.2)

WIDTH = 3.3  # inches: a column of a two-column page
TITLE, SUBTITLE, LABEL, TICK, NOTE = 9.0, 7.2, 7.5, 7.0, 6.2  # points
MEAN, SEED, BAR, LINE = 5.0, 2.6, 1.3, 1.5  # points: two markers and two lines
DPI = 200  # of a PNG


Look = dict[str, Any]
"""Colour, marker and dash of a variant; the last two distinguish it where colour does not."""
BASELINE: Look = {"colour": INK, "marker": "o", "dash": SOLID}
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
FREE = tuple(product((SOLID, DASHED, DOTTED, (4.0, 1.5, 1.0, 1.5)), (PLUM, AMBER, TEAL, TIE)))


def looks(labels: Sequence[str], together: Iterable[Collection[str]] = ()) -> dict[str, Look]:
    """Variant → look; variants that are drawn `together` look different."""
    neighbours: dict[str, set[str]] = {label: set() for label in labels}
    for group in together:
        for label in group:
            neighbours[label] |= set(group) - {label}
    found: dict[str, Look] = {}
    for label in neighbours:
        near = [found[other] for other in sorted(neighbours[label]) if other in found]
        taken = [(look["dash"], look["colour"]) for look in near]
        dash, colour = min(FREE, key=taken.count)
        markers = [look["marker"] for look in near]
        marker = min(MARKERS, key=markers.count)
        found[label] = {"colour": colour, "marker": marker, "dash": dash}
    return found


def dash(pattern: tuple[float, ...]) -> Any:
    """A line style of matplotlib."""
    return (0, pattern) if pattern else "-"


RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": LABEL,
    "axes.labelsize": LABEL,
    "axes.titlesize": SUBTITLE,
    "axes.titlelocation": "left",
    "xtick.labelsize": TICK,
    "ytick.labelsize": TICK,
    "text.color": INK,
    "axes.labelcolor": TEXT,
    "axes.titlecolor": TEXT,
    "axes.edgecolor": INK,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.linewidth": 0.8,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.major.size": 0.0,
    "xtick.minor.size": 0.0,
    "ytick.minor.size": 0.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "lines.linewidth": LINE,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "text.parse_math": False,  # a label with two dollar signs is still a label
    "svg.fonttype": "none",  # live text, so files stay small
    "svg.hashsalt": "attention-ablated",
}


@contextlib.contextmanager
def look() -> Iterator[None]:
    """Apply these settings, and ignore letters that the font lacks."""
    import matplotlib as mpl

    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"Glyph \d+")
        yield
