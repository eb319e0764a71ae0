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


def compose(
    name: str, frames: list[pd.DataFrame], kind: type[Figure] | None = None, columns: int = 1
) -> Figure:
    """The panels of a figure, each at column width: one under the other, or so many abreast."""
    return lay_out(find(name), frames, kind, columns)


def lay_out(
    module: FigureFile,
    frames: list[pd.DataFrame],
    kind: type[Figure] | None = None,
    columns: int = 1,
) -> Figure:
    """Give each panel its height and, inside its margins, its axis; then let it be drawn."""
    from matplotlib.figure import Figure

    from analysis import style

    heights = [module.inches(frame) for frame in frames]
    rows = [max(heights[i : i + columns]) for i in range(0, len(heights), columns)]
    width, total, room = columns * style.WIDTH, sum(rows), module.MARGINS
    with style.look():
        figure = (kind or Figure)(figsize=(width, total))
        for i, (frame, height) in enumerate(zip(frames, heights, strict=True)):
            left = i % columns * style.WIDTH + room.left
            bottom = total - sum(rows[: i // columns]) - height + room.below
            inner = style.WIDTH - room.left - room.right, height - room.above - room.below
            box = (left / width, bottom / total, inner[0] / width, inner[1] / total)
            module.draw(frame, figure.add_axes(box))
    return figure


def find(name: str) -> FigureFile:
    """The file of a figure."""
    assert name in names(), name
    module: Any = import_module(f"{__name__}.{name}")
    return module
