"""What the records mean: statistics, figures, tables and the report.

In a notebook, `analysis.frame("results/quick")` is every reading as a DataFrame, and
`analysis.figure("forest", "results/quick", question="norm")` a figure that is shown.
"""

from __future__ import annotations

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
    """A figure of a results folder, or of one of its questions: its first panel."""
    from analysis import notebook

    return notebook.figure(name, results, question)
