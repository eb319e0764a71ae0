"""Statistics, verdicts, figures, tables and the report, all computed from records.

In a notebook, `analysis.frame("results/quick")` returns every measurement as a DataFrame, and
`analysis.figure("forest", "results/quick", "norm/g2p")` returns a figure that is displayed.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # libraries are loaded when one of these is called
    import pandas as pd
    from matplotlib.figure import Figure


def frame(results: str | Path) -> pd.DataFrame:
    """Every measurement of a results folder, a row each; tables/measurements.md has the columns."""
    from analysis import tables
    from analysis.load import load

    return tables.measurements(load(results))


def figure(kind: str, results: str | Path, experiment: str | None = None) -> Figure:
    """The first figure of a kind, of a whole results folder or of one experiment."""
    from matplotlib.figure import Figure

    from analysis import plots
    from analysis.contrasts import gather
    from analysis.wording import check_known

    class NotebookFigure(Figure):
        """A figure that a notebook displays without pyplot."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=144, facecolor="white")
            return buffer.getvalue()

    check_known(kind, list(plots.KINDS), "figure")
    evidence = gather(results)
    if experiment is not None:
        check_known(experiment, list(evidence.loaded.experiments), "experiment")
    found = plots.panels(evidence, [kind], experiment)
    if not found:
        raise ValueError(f"nothing to draw yet: no trial feeds {kind!r}")
    return plots.draw(found[0], NotebookFigure)
