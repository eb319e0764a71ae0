"""What the records mean: statistics, figures, tables and the report.

In a notebook, `analysis.frame("results/quick")` is every reading as a DataFrame, and
`analysis.figure("forest", "results/quick", question="norm")` a figure that is shown.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # libraries are loaded when one of these is called
    import pandas as pd
    from matplotlib.figure import Figure


def frame(results: str | Path) -> pd.DataFrame:
    """Every reading of a results folder, one a row; tables/readings.md explains its columns."""
    from analysis import readings
    from analysis.load import load

    return readings.tidy(load(results))


def figure(name: str, results: str | Path, question: str | None = None) -> Figure:
    """A figure of a results folder, or of one of its questions: the first of its kind."""
    from matplotlib.figure import Figure

    from analysis import plots
    from analysis.contrasts import gather
    from analysis.names import choose

    class NotebookFigure(Figure):
        """A figure that a notebook shows where it is the last line of a cell, without pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=144, facecolor="white")
            return buffer.getvalue()

    choose(name, list(plots.KINDS), "figure")
    evidence = gather(results)
    if question is not None:
        choose(question, list(evidence.loaded.ablations), "question")
    found = plots.panels(evidence, [name], question)
    if not found:
        raise ValueError(f"nothing to draw yet: no trial feeds {name!r}")
    return plots.draw(found[0], NotebookFigure)
