"""One call gives the readings, one call a figure, and importing the package costs nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import analysis
from analysis.load import load

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small(folder: Any) -> Any:
    for name in ("norm", "position"):
        folder.ablation(name, ["pre", f"no {name}"], seeds=[0, 1, 2])
    for place, label in enumerate(("pre", "no norm", "no position")):
        for seed in (0, 1, 2):
            folder.record(label, seed, 0.2 + 0.1 * place + 0.013 * seed * (1 + place))
    return folder


def test_a_frame_has_every_reading_with_its_question(small: Any) -> None:
    frame = analysis.frame(small.root)
    assert len(frame) == len(load(small.root).readings) == 4 * 3 * 3
    last = frame[(frame["step"] == 300) & (frame["ablation"] == "norm")]
    means = last.groupby("label")["value"].mean()
    assert means["pre"] == pytest.approx(0.213)
    assert means["no norm"] == pytest.approx(0.326)
    assert set(frame[frame["is_control"] == 1]["label"]) == {"pre"}


def test_a_figure_of_one_question_draws_that_question_alone(small: Any) -> None:
    texts = {
        name: {text.get_text() for ax in figure.axes for text in ax.texts}
        for name, figure in (
            ("norm", analysis.figure("forest", small.root, question="norm")),
            ("all", analysis.figure("forest", small.root)),
        )
    }
    assert {"no norm", "no position"} <= texts["all"]
    assert "no norm" in texts["norm"]
    assert "no position" not in texts["norm"]


def test_a_notebook_shows_the_figure_without_pyplot(small: Any) -> None:
    figure: Any = analysis.figure("forest", small.root)
    assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("name", "question", "answer"),
    [
        ("forrest", None, "did you mean 'forest'"),
        ("forest", "nrom", "did you mean 'norm'"),
        ("speed", None, "nothing to draw yet"),
    ],
)
def test_a_mistake_names_what_was_meant(
    small: Any, name: str, question: str | None, answer: str
) -> None:
    with pytest.raises(ValueError, match=answer):
        analysis.figure(name, small.root, question=question)


def test_importing_the_package_loads_no_library(small: Any) -> None:
    script = (
        "import sys, analysis\n"
        "assert not {'pandas', 'numpy', 'scipy', 'matplotlib', 'torch'} & set(sys.modules)\n"
        f"analysis.figure('forest', {str(small.root)!r})._repr_png_()\n"
        "assert not {'torch', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_readme_runs(
    small: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"<!-- tested -->\n```python\n(.*?)```", text, flags=re.DOTALL)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "quick").symlink_to(small.root)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(example, names)
    assert len(names["frame"]) == 4 * 3 * 3
