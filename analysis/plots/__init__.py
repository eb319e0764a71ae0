"""Figures drawn from tidy frames by functions `plot(frame, ax)`.

`panels` lists what can be drawn, `draw` makes a figure, `save` writes its files. matplotlib is
imported only when something is drawn.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ablations.store.files import write_atomic
from analysis.contrasts import Evidence
from analysis.plots import calibration, canvas, coordinates, forest, heatmap, pareto, published
from analysis.plots import style as style
from analysis.plots.canvas import Panel as Panel
from analysis.plots.canvas import draw as draw
from analysis.wording import safe

MANY = 24  # panels from which a second process saves time
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
"""No dates or versions, so that equal figures have equal bytes."""


KINDS: dict[str, Callable[[Evidence], list[Panel]]] = {
    "overview": forest.overview_panels,
    "forest": forest.panels,
    "learning": coordinates.learning,
    "lines": coordinates.panels,
    "heatmap": heatmap.panels,
    "speed": forest.speed_panels,
    "pareto": pareto.panels,
    "calibration": calibration.panels,
    "published": published.panels,
}
"""Kind of figure → all of its panels in a results folder."""


def forms(kind: str) -> tuple[str, ...]:
    """File formats of a kind of figure; the README shows the overview as PNG."""
    return ("svg", "pdf", "png") if kind == "overview" else ("svg", "pdf")


def panels(
    evidence: Evidence, kinds: Sequence[str] | None = None, experiment: str | None = None
) -> list[Panel]:
    """The figures of these kinds, or of all; of one experiment, or of all."""
    found: list[Panel] = []
    names: dict[str, int] = {}
    for kind in KINDS if kinds is None else kinds:
        for panel in KINDS[kind](evidence):
            stem = kind if panel.experiment is None else f"{kind}-{safe(panel.experiment)}"
            names[stem] = count = names.get(stem, 0) + 1
            name = stem if count == 1 else f"{stem}-{count}"
            if experiment in (None, panel.experiment):
                found.append(replace(panel, name=name, alt=canvas.described(panel)))
    return found


def save(panel: Panel, folder: Path) -> list[Path]:
    """Write NAME.svg and NAME.pdf, and NAME.png of the overview; each atomically."""
    figure, paths = draw(panel), []
    with style.look():
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # keep one layout for every file format
        for form in forms(panel.kind):
            buffer, metadata = io.BytesIO(), METADATA[form]
            figure.savefig(buffer, format=form, dpi=style.DPI, metadata=metadata)
            paths.append(folder / f"{panel.name}.{form}")
            write_atomic(paths[-1], buffer.getvalue())
    return paths


def save_all(panels: Sequence[Panel], folder: Path, jobs: int = 1) -> list[Path]:
    """Write the files of every panel; many panels are drawn by several processes."""
    if jobs < 2 or len(panels) < MANY:
        return [path for panel in panels for path in save(panel, folder)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, context, initializer=_end_with_parent) as pool:
        each = pool.map(save, panels, [folder] * len(panels), chunksize=4)
        return [path for paths in each for path in paths]


def _end_with_parent() -> None:
    """End this process when its parent is killed."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
