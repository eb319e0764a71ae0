"""One look for every figure: column width, colours that survive colour blindness, exact SVG.

Text is drawn as paths: a figure needs no font of the reader's, and a hostile label is only shapes.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font, LoadFlags

from ablations.store.files import write_atomic

WIDTH = 3.4  # inches: one column of a two-column page
SMALL, BODY, TITLE = 6.5, 7.0, 8.0  # points
DPI = 200  # of a PNG
KINDS = ("svg", "pdf", "png")

# Okabe and Ito: told apart in every common form of colour blindness.
BLUE, VERMILION, SKY = "#0072B2", "#D55E00", "#56B4E9"
INK, QUIET = "#1c1c1c", "#767676"  # QUIET reads on white and on black


PALETTE = (INK, BLUE, VERMILION, "#009E73", "#CC79A7", "#E69F00", SKY, QUIET)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES: tuple[tuple[float, ...], ...] = ((), (4, 1.5), (1, 1), (4, 1.5, 1, 1.5))
Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Look:
    """How a variant is drawn: told apart by its marker and dashes as well as by its colour."""

    colour: str
    marker: str
    dash: tuple[float, ...]


def looks(labels: Sequence[str], together: Iterable[Collection[str]] = ()) -> dict[str, Look]:
    """A look for each label, by its place among all of a folder: the same in every figure.

    Those that stand `together` in a question take different ones as far as they can; in a small
    question two that look alike are worse than in a crowded one.
    """
    order = list(dict.fromkeys(labels))
    beside: dict[str, dict[str, float]] = {label: {} for label in order}
    for group in together:
        for label in group:
            for other in group:
                beside[label][other] = beside[label].get(other, 0.0) + 1 / len(group)
    found: dict[str, Look] = {}
    for i, label in enumerate(order):
        near = [(found[other], by) for other, by in beside[label].items() if other in found]
        colour = _least_taken(PALETTE, i, [(each.colour, by) for each, by in near])
        same = [(each.dash, by) for each, by in near if each.colour == colour]
        dash = _least_taken(DASHES, i // len(PALETTE), same)
        marker = _least_taken(MARKERS, i, [(each.marker, by) for each, by in near])
        found[label] = Look(colour, marker, dash)
    return found


def _least_taken(
    choices: Sequence[Choice], first: int, taken: Iterable[tuple[Choice, float]]
) -> Choice:
    """Of those that are taken least the first, counted from there on and round again."""
    turned = [choices[(first + k) % len(choices)] for k in range(len(choices))]
    weights = dict.fromkeys(turned, 0.0)
    for choice, by in taken:
        weights[choice] += by
    return min(turned, key=lambda each: weights[each])


@dataclass(frozen=True)
class Margins:
    """Inches around the axis of a panel."""

    left: float
    right: float
    above: float
    below: float


RC: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": BODY,
    "axes.labelsize": BODY,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": BODY,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "text.parse_math": False,  # a label with two dollar signs is still a label
    "svg.fonttype": "path",
    "svg.hashsalt": "attention-ablated",
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_NO_DATES = {"CreationDate": None, "Creator": None, "Producer": None}


def look() -> AbstractContextManager[None]:
    """The style, for drawing and for saving."""
    return mpl.rc_context(RC)


def width(text: str, size: float = BODY, weight: str = "normal") -> float:
    """How many inches a line of text takes."""
    font = _font(weight)
    font.set_size(100, 72)  # large, so that rounding to whole pixels does not matter
    font.set_text(text, 0.0, flags=LoadFlags.NO_HINTING)
    return font.get_width_height()[0] / 64 / 72 * size / 100  # FreeType counts in 64ths


def _font(weight: str) -> FT2Font:
    return get_font(findfont(FontProperties(family="DejaVu Sans", weight=weight)))


def fit(text: str, inches: float, size: float = BODY, weight: str = "normal") -> str:
    """The text in one line, in glyphs that the font has, cut with … where it would not fit."""
    glyphs = _font(weight).get_charmap()
    line = " ".join(text[:200].split())
    line = "".join(letter if ord(letter) in glyphs else "\ufffd" for letter in line)

    if width(line, size, weight) <= inches:
        return line
    kept, cut = 0, len(line)
    while cut - kept > 1:
        middle = (kept + cut) // 2
        fits = width(line[:middle].rstrip() + "…", size, weight) <= inches
        kept, cut = (middle, cut) if fits else (kept, middle)
    return line[:kept].rstrip() + "…"


def fit_name(name: str, inches: float, size: float = BODY) -> str:
    """A variant's name in one line; where it is crossed, the crossing stays: `no resi… [depth=2]`,
    since it alone may tell two rows apart."""
    label, _, across = name[:200].rpartition(" [")
    end = fit(f"[{across}", inches, size)
    room = inches - width(f" {end}", size)
    if not label or not end.endswith("]") or room < 0.4 * inches:
        return fit(name, inches, size)
    return f"{fit(label, room, size)} {end}"


def svg(figure: Figure) -> str:
    """The figure as SVG text; the same figure gives the same bytes."""
    buffer = io.StringIO()
    with look():
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return buffer.getvalue()


def files(folder: Path, name: str) -> list[Path]:
    """Where a figure is kept; its name may have a folder before it, and has no dots."""
    return [folder / f"{name}.{kind}" for kind in KINDS]


def save(figure: Figure, folder: Path, name: str) -> list[Path]:
    """Write NAME.svg, NAME.pdf and NAME.png, each whole or not at all."""
    vector, page, raster = paths = files(folder, name)
    write_atomic(vector, svg(figure))
    write_atomic(page, _bytes(figure, "pdf", _NO_DATES))
    write_atomic(raster, _bytes(figure, "png", {"Software": None}))
    return paths


def _bytes(figure: Figure, kind: str, metadata: dict[str, None]) -> bytes:
    buffer = io.BytesIO()
    with look():
        figure.savefig(buffer, format=kind, dpi=DPI, facecolor="white", metadata=metadata)
    return buffer.getvalue()
