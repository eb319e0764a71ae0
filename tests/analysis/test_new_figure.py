"""A figure is one file: its caption and its margins come with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis import figures, report, style
from analysis.evidence import Evidence, gather

STAIRS = """
from analysis.style import Margins

CAPTION = "Each step is one seed."
MARGINS = Margins(left=0.5, right=0.9, above=0.2, below=0.3)

def panels(evidence): return [evidence.contrasts] * 2
def inches(frame): return 1.5
def draw(frame, ax):
    ax.set_axis_off()
    return ax
def describe(frames): return "Stairs that lead nowhere."
"""


@pytest.fixture
def stairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "stairs.py").write_text(STAIRS)
    monkeypatch.setattr(figures, "__path__", [*figures.__path__, str(tmp_path)])
    yield "stairs"
    sys.modules.pop("analysis.figures.stairs", None)
    vars(figures).pop("stairs", None)


@pytest.fixture
def evidence(folder: Any) -> Evidence:
    folder.ablation("width", ["64", "128"], seeds=[0])
    folder.record("64", 0, 0.25)
    folder.record("128", 0, 0.20)
    return gather(folder.root)


def test_a_file_in_the_folder_is_a_figure_of_the_page_under_its_own_caption(
    stairs: str, evidence: Evidence
) -> None:
    *_, page = report.write(evidence)
    text = page.read_text(encoding="utf-8")
    assert "<figcaption>Each step is one seed. <" in text
    assert 'aria-label="Stairs that lead nowhere."' in text


def test_every_panel_stands_inside_the_margins_of_its_figure(
    stairs: str, evidence: Evidence
) -> None:
    figure = figures.compose(stairs, figures.panels(stairs, evidence))
    assert tuple(figure.get_size_inches()) == (style.WIDTH, 3.0)
    upper, lower = (ax.get_position() for ax in figure.axes)
    for box, top in ((upper, 3.0), (lower, 1.5)):
        assert box.x0 * style.WIDTH == pytest.approx(0.5)
        assert (1 - box.x1) * style.WIDTH == pytest.approx(0.9)
        assert box.y1 * 3.0 == pytest.approx(top - 0.2)
        assert box.y0 * 3.0 == pytest.approx(top - 1.5 + 0.3)


@pytest.mark.parametrize("name", ["forest", "speed"])
def test_each_caption_explains_its_own_figure(name: str) -> None:
    subject = {"forest": "Difference of each variant", "speed": "Times relative to the control"}
    assert figures.caption(name).startswith(subject[name])
