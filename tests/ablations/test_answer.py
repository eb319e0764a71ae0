"""A trained model can be asked a question of one's own."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.answer import Reply, answer, drawn, picture
from ablations.commands import main
from ablations.expand import freeze, load_task, resolve_trial
from ablations.record import Record, Results
from ablations.weights import save_weights
from model.build import build

MODELS: dict[str, dict[str, Any]] = {
    "transformer": {"name": "transformer", "kind": "encoder_decoder", "d_model": 16},
    "recurrent": {"name": "recurrent", "d_model": 16},
}


@pytest.fixture(params=MODELS)
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Results, Record]:
    """A results folder with one untrained trial and its checkpoint."""
    task = {"name": "g2p", "words": 50, "valid_words": 10, "test_words": 10}
    tree = {"task": task, "model": MODELS[request.param], "train": {"steps": 1}}
    config = {**resolve_trial(tree), "seed": 0}
    results, record = Results(tmp_path), Record("a" * 12, "ok", config)
    results.write(record)
    g2p = load_task(freeze(config["task"]))
    model = build(config["model"], g2p.source_size, g2p.target_size, seed=0)
    save_weights(model, results.checkpoint(record.trial))
    return results, record


def test_the_answer_is_that_of_the_weights_on_disk(asked: tuple[Results, Record]) -> None:
    results, record = asked
    reply = answer(record, results, "cat")
    assert 0 < reply.probability <= 1
    assert reply.read == ["c", "a", "t", "end"]
    assert reply.written == [*reply.text.split(), "end"]
    assert reply.weights is not None
    for row in reply.weights:
        assert len(row) == 4
        assert math.isclose(sum(row), 1, rel_tol=1e-4)
    assert len(reply.weights) == len(reply.written)
    torch.manual_seed(5)
    assert answer(record, results, "cat") == reply


def test_the_command_prints_the_answer_and_draws_it(
    asked: tuple[Results, Record], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results, _ = asked
    file = tmp_path / "cat.svg"
    words = ["try", "aaaa", "cat", "--results", str(results.root), "--figure", str(file)]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("cat → ")
    assert "probability" in said
    assert ET.parse(file).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["aaaa", "naïve"], "write it with a–z"),
        (["bbbb", "cat"], "no trial"),
        (["aaaa", ""], "empty"),
    ],
)
def test_what_cannot_be_asked_is_one_line(
    asked: tuple[Results, Record], words: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["try", *words, "--results", str(asked[0].root)]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert len(error.splitlines()) == 1


def test_a_trial_without_its_checkpoint_says_so(
    asked: tuple[Results, Record], capsys: pytest.CaptureFixture[str]
) -> None:
    results, record = asked
    results.checkpoint(record.trial).unlink()
    assert main(["try", "aaaa", "cat", "--results", str(results.root)]) == 2
    assert "no checkpoint" in capsys.readouterr().err


def test_shades_grow_with_weight_and_hostile_symbols_are_inert() -> None:
    reply = Reply("X", 0.5, ["<b>", "t"], ["X", "end"], [[0.0, 1.0], [0.5, 0.5]], "here")
    first, second = drawn(reply).splitlines()[1:]
    assert "█" in first
    assert "░" not in first
    assert second.count("▒") == 6
    assert "<b>" not in picture(reply)
    assert drawn(Reply("X", 0.5, ["t"], ["X"], None, "")) == "This model attends to nothing."
