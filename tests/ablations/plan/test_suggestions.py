"""A path that does not exist is answered with the one that was meant, wherever it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ablations.commands import main
from ablations.plan.suggestions import ELSEWHERE
from ablations.plan.wanted import make_plan

Ask = Callable[..., str]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("train.lr=1e-3", "train.optimiser.rate"),
        ("train.learning_rate=1e-3", "train.optimiser.rate"),
        ("train.optimiser.lr=1e-3", "train.optimiser.rate"),
        ("lr=1e-3", "train.optimiser.rate"),
        ("train.rate=1e-3", "train.optimiser.rate"),
        ("train.warmup=3", "train.schedule.warmup"),
        ("train.stesp=3", "train.steps"),
        ("model.heads=2", "model.n_heads"),
        ("model.steps=2", "train.steps"),
        ("d_model=32", "model.d_model"),
        ("model.norm.epsilon=1e-3", "model.norm.eps"),
    ],
)
def test_a_misspelt_path_is_answered_with_the_right_one(
    ask: Ask, wrong: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", ask(), "--profile", "smoke", wrong]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert f"Did you mean '{right}'?" in said


def test_every_word_of_other_programs_leads_to_a_setting_that_exists(ask: Ask) -> None:
    (want, *_) = make_plan([ask()], "smoke", {}, [0]).wanted.values()
    for path in ELSEWHERE.values():
        value = want.config
        for key in path.split("."):
            assert key in value, path
            value = value[key]


def test_a_part_is_set_by_its_name_alone(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["plan", ask(), "--profile", "smoke", "--seeds", "0"]
    for levels in ("rms", "layer,rms"):
        assert main([*words, f"model.norm.name={levels}"]) == 2
        said = capsys.readouterr().err
        assert said == f"model.norm.name={levels}: write model.norm={levels}\n"
    (want, *_) = make_plan([ask()], "smoke", {"model.norm": "rms"}, [0]).wanted.values()
    assert want.config["model"]["norm"] == {"name": "rms", "eps": 1e-6, "affine": True}
