"""A part of one's own as CONTRIBUTING shows it: it runs, and what it forgets is said in a line."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ablations import config, facts
from model.residual import NORM

PAGE = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SMALL = ["task.words=200", "task.valid_words=40", "task.test_words=40", "model.d_model=16"]
SMALL += ["model.depth=1", "train.steps=4", "train.batch_tokens=256", "train.evaluations=2"]
Say = Callable[..., tuple[int, str, str]]


def shown(name: str) -> str:
    """A file as the page has it."""
    found = re.search(rf"<!-- {re.escape(name)} -->\n```\w+\n(.*?)```", PAGE, re.DOTALL)
    assert found, f"CONTRIBUTING.md no longer shows {name}"
    return found[1]


def forget() -> None:
    sys.modules.pop("my_parts", None)
    NORM.components.pop("peak", None)
    for room in (facts, config):
        for value in vars(room).values():
            if hasattr(value, "cache_clear"):
                value.cache_clear()


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the user's, with both files of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)  # as `python -m` has the folder one stands in
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    for name in ("my_parts.py", "my_question.yaml"):
        Path(name).write_text(shown(name), encoding="utf-8")
    forget()
    yield tmp_path
    forget()


def test_the_part_of_the_page_is_trained_and_asked(say: Say) -> None:
    own = ["--import", "my_parts", "--profile", "smoke"]
    code, out, err = say(
        "run", "my_question.yaml", *own, *SMALL, "--seeds", "1", "--jobs", "1", "--device", "cpu"
    )
    assert code == 0, err
    assert out.startswith("2 trials in results/smoke; 2 ")  # in four steps both may be stuck
    assert re.search(r"^layer \(\w+\) .*\n *peak ", out, re.MULTILINE), "the table of both"
    code, out, err = say("try", "my_question:peak", "cat", *own)
    assert (code, err) == (0, "")
    assert out.startswith("cat → ")


def test_what_a_part_forgets_is_said_in_one_line_before_anything_trains(say: Say) -> None:
    whole = shown("my_parts.py")
    for written, instead, says in [
        ('    roles: ClassVar = {"gain": 1.0}\n', "", "declares no role for its parameter"),
        ("d_model: int)", "width: int)", "norm PeakNorm asks for unknown {'width'}"),
        ("    @dataclass(frozen=True, kw_only=True)\n", "", "TypeError"),
        ("torch.empty(d_model)", "torch.empty(d_model + 1)", "torch.Size"),
        ("        super().__init__()\n", "", "AttributeError: cannot assign parameter"),
        ('@NORM.register("peak")\n', "", "no norm 'peak'"),
        ("    def forward(", "    def backward(", "NotImplementedError"),
    ]:
        assert written in whole
        forget()
        Path("my_parts.py").write_text(whole.replace(written, instead), encoding="utf-8")
        importlib.invalidate_caches()
        code, out, err = say("run", "my_question.yaml", "--import", "my_parts", *SMALL)
        assert (code, out) == (2, "")
        assert says in err
        assert err.count("\n") == 1, err
        assert not Path("results").exists()
