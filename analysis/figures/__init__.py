"""One figure per file, found by being there: a new file in this folder is a new figure.

What such a file declares is `FigureFile`; `tests/contracts/test_figures.py` holds it to that.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from analysis.evidence import Evidence
    from analysis.style import Margins


class FigureFile(Protocol):
    """What a figure owes."""

    CAPTION: str
    """What its marks and colours mean."""

    MARGINS: Margins
    """The room around each panel's axis."""

    def panels(self, evidence: Evidence) -> list[pd.DataFrame]:
        """What it would show, one frame per panel; empty where there is nothing yet.

        Its column `name` says whom it draws, its column `ablation` for which question: panels of
        one question stand in that question's section, those of several in the overview.
        """
        ...

    def inches(self, frame: pd.DataFrame) -> float:
        """The height of a panel, margins included."""
        ...

    def draw(self, frame: pd.DataFrame, ax: Axes) -> Axes:
        """One panel on its axis."""
        ...

    def describe(self, frames: list[pd.DataFrame]) -> str:
        """All panels in words, for those who cannot see them."""
        ...


def names() -> list[str]:
    """Every figure there is."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def panels(name: str, evidence: Evidence) -> list[pd.DataFrame]:
    """What a figure would show, one frame per panel; empty where there is nothing yet."""
    return find(name).panels(evidence)


def caption(name: str) -> str:
    """What the marks of a figure mean."""
    return find(name).CAPTION


def describe(name: str, frames: list[pd.DataFrame]) -> str:
    """The figure in words, for those who cannot see it."""
    return find(name).describe(frames)


def compose(name: str, frames: list[pd.DataFrame], kind: type[Figure] | None = None) -> Figure:
    """The panels of a figure, one under the other at column width."""
    return lay_out(find(name), frames, kind)


def lay_out(
    module: FigureFile, frames: list[pd.DataFrame], kind: type[Figure] | None = None
) -> Figure:
    """Give each panel its height and, inside its margins, its axis; then let it be drawn."""
    from matplotlib.figure import Figure

    from analysis import style

    heights = [module.inches(frame) for frame in frames]
    width, total, room = style.WIDTH, sum(heights), module.MARGINS
    with style.look():
        figure = (kind or Figure)(figsize=(width, total))
        top = total
        for frame, height in zip(frames, heights, strict=True):
            bottom = top - height + room.below
            inner = width - room.left - room.right, height - room.above - room.below
            box = (room.left / width, bottom / total, inner[0] / width, inner[1] / total)
            module.draw(frame, figure.add_axes(box))
            top -= height
    return figure


def find(name: str) -> FigureFile:
    """The file of a figure."""
    assert name in names(), name
    module: Any = import_module(f"{__name__}.{name}")
    return module
