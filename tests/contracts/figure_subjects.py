"""Figures to hold to their contracts, and made-up results for them to draw."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any
from unittest.mock import patch

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from analysis import figures, style
from analysis.evidence import Evidence, gather

SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Subject:
    """One figure: its name and the module of that name."""

    name: str
    module: Any

    @property
    def file(self) -> str:
        return f"analysis/figures/{self.name}.py"

    def compose(self, evidence: Evidence) -> Figure:
        return figures.lay_out(self.module, self.module.panels(evidence))


def every_subject() -> list[Subject]:
    return [Subject(name, figures.find(name)) for name in figures.names()]


@dataclass(frozen=True)
class Written:
    """A text as it was really drawn, and where."""

    text: Text
    box: Bbox

    @property
    def words(self) -> str:
        return self.text.get_text()


def written(figure: Figure) -> list[Written]:
    """Every text that drawing the figure put on its canvas; ticks beyond the axis are not."""
    found: list[Written] = []
    draw = Text.draw

    def remember(self: Text, renderer: Any, *rest: Any, **options: Any) -> None:
        if self.get_visible() and self.get_text().strip():
            found.append(Written(self, self.get_window_extent(renderer)))
        draw(self, renderer, *rest, **options)

    with patch.object(Text, "draw", remember), style.look():
        FigureCanvasAgg(figure).draw()
    return found


@cache
def made_up() -> Any:
    """The maker of results folders that the tests of analysis use."""
    path = Path(__file__).parents[1] / "analysis" / "conftest.py"
    spec = spec_from_file_location("made_up_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def sweep() -> Evidence:
    """Results as they really end: most of it well, some of it badly, some of it not yet."""
    with tempfile.TemporaryDirectory() as place:
        return gather(made_up().build_everything(Path(place) / "run").root)


@cache
def called(label: str) -> Evidence:
    """One variant of that name, trained, timed, counted and looked into with every seed."""
    with tempfile.TemporaryDirectory() as place:
        folder = made_up().Folder(Path(place) / "run")
        lab, probes = import_module("speed_lab"), import_module("probe_lab")
        training = import_module("training_lab")
        for name, warmup in (("control", 0), (label, 100)):
            folder.configs[name] = training.config(warmup=warmup)
        claims = [lab.complexity_claim(folder, label, "control")]
        named = {"metrics": {**lab.METRICS, **probes.METRICS}, "claims": claims}
        named |= {"tuning": [training.choice(name) for name in ("control", label)]}
        folder.ablation("width", ["control", label], seeds=list(SEEDS), **named)
        folder.ablation("ladder", ["control", label], seeds=list(SEEDS))
        for seed in SEEDS:
            for name, layer, ratio in (("control", "attention", 1.0), (label, "lstm", 1.2)):
                readings = [*folder.timing(ratio), *lab.layer_times(folder, layer)]
                readings += [*lab.of_model(folder, ratio), *lab.counts(1)]
                readings += probes.probed(seed, ratio, label)
                readings += [*training.learning(seed, ratio), *training.positions()]
                readings += training.rates(1e-2, "linear", 100 if name == label else 0)
                folder.record(name, seed, 0.25 if name == "control" else 0.2 + 0.01 * seed,
                              readings=readings)  # fmt: skip
        _crossed_heads(folder, label, training)
        import_module("study_lab").build_study(folder, label, question=label)
        return gather(folder.root)


def _crossed_heads(folder: Any, label: str, training: Any) -> None:
    """The same two names, for arms that differ in their heads, at two sizes."""
    folder.configs |= {"control": training.config(4), label: training.config(8)}
    crossings = [{"size": "1"}, {"size": "2"}]
    folder.ablation("heads", ["control", label], seeds=list(SEEDS), crossings=crossings)
    for across in crossings:
        for seed in SEEDS:
            for name in ("control", label):
                folder.record(name, seed, 0.2 + 0.01 * seed, across=across)


@cache
def nothing(planned: bool) -> Evidence:
    """A folder before its first record: with a question in its plan, or with none."""
    with tempfile.TemporaryDirectory() as place:
        folder = made_up().Folder(Path(place) / "run")
        folder.results.write_plan(folder.plan)
        if planned:
            folder.ablation("width", ["control", "variant"])
        return gather(folder.root)
