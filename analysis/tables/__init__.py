"""What was found as tables: full precision in CSV, sensible digits in Markdown, LaTeX and HTML."""

from __future__ import annotations

from pathlib import Path

from ablations.store.files import write_atomic
from analysis.evidence import Evidence
from analysis.names import asked
from analysis.projection import projection, view
from analysis.sheet import csv
from analysis.tables import readings
from analysis.tables.contrasts import CAPTION, contrasts_views, with_speed
from analysis.tables.forms import FORMS, TitledView, escape, html, latex, markdown
from analysis.tables.times import curve_views, singles, speed_view

__all__ = [
    "CAPTION",
    "FORMS",
    "TitledView",
    "contrasts_views",
    "curve_views",
    "escape",
    "html",
    "latex",
    "markdown",
    "readings",
    "singles",
    "speed_view",
    "with_speed",
    "write",
]


def write(evidence: Evidence) -> list[Path]:
    """Write every table in every form, and every reading, to DIR/tables/."""
    folder = evidence.loaded.root / "tables"
    contents: dict[str, str | bytes] = {}
    frames = {"contrasts": with_speed(evidence), "speed": evidence.speeds}
    shown = {"contrasts": _contrasts(evidence), "speed": _times(evidence)}
    projected = projection(evidence)
    if projected is not None:
        frames["projected"] = projected.rows
        shown["projected"] = [TitledView("Projected to other devices", view(projected))]
    for name, frame in frames.items():
        contents[f"{name}.csv"] = csv(frame)
        for suffix, form in FORMS.items():
            contents[f"{name}.{suffix}"] = form(shown[name])
    contents |= readings.files(evidence.loaded)
    for name, content in contents.items():
        write_atomic(folder / name, content)
    return [folder / name for name in contents]


def _contrasts(evidence: Evidence) -> list[TitledView]:
    return [
        TitledView(name, view, asked(evidence.loaded.ablations[name]), CAPTION)
        for name, view in contrasts_views(evidence).items()
    ]


def _times(evidence: Evidence) -> list[TitledView]:
    points = TitledView("Times at single places", speed_view(singles(evidence)))
    return [points, *(TitledView(title, view) for title, view in curve_views(evidence).items())]
