"""One figure per file: `panels(evidence)` chooses, `draw(frame, ax)` draws, `describe` tells.

A new file in this folder is a new figure; nothing else needs to know.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from analysis.evidence import Evidence


def names() -> list[str]:
    """Every figure there is."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def panels(name: str, evidence: Evidence) -> list[pd.DataFrame]:
    """What a figure would show, one frame per panel; empty where there is nothing yet."""
    return _module(name).panels(evidence)


def describe(name: str, frames: list[pd.DataFrame]) -> str:
    """The figure in words, for those who cannot see it."""
    return _module(name).describe(frames)


def compose(name: str, frames: list[pd.DataFrame]) -> Figure:
    """The panels of a figure, one under the other at column width."""
    from matplotlib.figure import Figure

    from analysis import rows, style

    module = _module(name)
    heights = [module.inches(frame) for frame in frames]
    total = sum(heights)
    with style.look():
        figure = Figure(figsize=(style.WIDTH, total))
        top = total
        for frame, height in zip(frames, heights, strict=True):
            bottom = top - height + rows.BELOW
            inner = (style.WIDTH - rows.LEFT - rows.RIGHT, height - rows.ABOVE - rows.BELOW)
            box = (rows.LEFT / style.WIDTH, bottom / total, inner[0] / style.WIDTH)
            module.draw(frame, figure.add_axes((*box, inner[1] / total)))
            top -= height
    return figure


def _module(name: str) -> Any:
    assert name in names(), name
    return import_module(f"{__name__}.{name}")
