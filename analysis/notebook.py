"""One call for the readings of a folder, one for a figure of it: what a notebook asks for."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import figures, style
from analysis.evidence import gather
from analysis.load import load
from analysis.names import choose
from analysis.tables import readings


class NotebookFigure(Figure):
    """A figure that a notebook shows where it is the last line of a cell, without pyplot."""

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        with style.look():
            self.savefig(buffer, format="png", dpi=144, facecolor="white")
        return buffer.getvalue()


def frame(results: str | Path) -> pd.DataFrame:
    """Every reading of a results folder, one a row; its columns are told in tables/readings.md."""
    return readings.tidy(load(results))


def figure(name: str, results: str | Path, question: str | None = None) -> Figure:
    """A figure of a results folder, or of one of its questions."""
    choose(name, figures.names(), "figure")
    evidence = gather(results)
    panels = figures.panels(name, evidence)
    if question is not None:
        choose(question, list(evidence.loaded.ablations), "question")
        panels = [panel[panel["ablation"] == question] for panel in panels if "ablation" in panel]
        panels = [panel for panel in panels if len(panel)]
    if not panels:
        raise ValueError(f"nothing to draw yet: no trial feeds {name!r}")
    return figures.compose(name, panels, NotebookFigure)
