"""What differs between two variants is told, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ablations.commands.diff import difference
from ablations.plan import make_plan

Ask = Callable[..., str]
VARIANTS = {
    "with": {},
    "without": {"model.position": "none"},
    "wide": {"model.feedforward": {"name": "relu", "ratio": 8.0}},
    "deep": {"model.depth": 2},
    "recurrent": {"model": {"name": "recurrent", "d_model": 16, "depth": 1}},
    "longer": {"train.steps": 8},
}


@pytest.fixture
def found(ask: Ask) -> Callable[[str, str], Any]:
    def answer(one: str, other: str) -> Any:
        plan = make_plan([ask(variants=VARIANTS)], "smoke", {}, [0])
        trials = {trial.variant: trial for trial in plan.trials.values()}
        return difference(trials[one], trials[other])

    return answer


def test_a_variant_does_not_differ_from_itself(found: Any) -> None:
    same = found("with", "with")
    assert (same["settings"], same["modules"], same["start_equal"]) == ({}, {}, [1.0, 1.0])
    assert len(set(same["parameters"])) == len(set(same["flops_per_token"])) == 1


def test_a_part_that_is_replaced_is_all_that_differs(found: Any) -> None:
    changed = found("with", "without")
    assert changed["settings"].pop("model.position.name") == ["sinusoidal", "none"]
    assert all(path.startswith("model.position.") for path in changed["settings"])
    assert changed["modules"] == {
        f"{side}.embedding.position": ["Sinusoidal", "NoPosition"]
        for side in ("encoder", "decoder")
    }
    assert changed["start_equal"] == [1.0, 1.0]


def test_weights_of_another_shape_start_otherwise(found: Any) -> None:
    changed = found("with", "wide")
    assert changed["settings"] == {"model.feedforward.ratio": ["4.0", "8.0"]}
    d = 16
    per_block = 4 * d * 2 * d + 4 * d  # two larger matrices and one larger bias
    assert changed["parameters"][1] - changed["parameters"][0] == 2 * per_block
    theirs = 2 * (2 * 4 * d * d + 4 * d)  # the smaller ones, in encoder and decoder
    assert changed["start_equal"][0] == pytest.approx(1 - theirs / changed["parameters"][0])


def test_the_weights_of_one_more_block_are_the_only_new_ones(found: Any) -> None:
    changed = found("with", "deep")
    assert changed["settings"] == {"model.depth": ["1", "2"]}
    assert changed["modules"] == {}, "blocks of a stack are told of once"
    assert changed["start_equal"][0] == 1.0
    few, many = changed["parameters"]
    assert changed["start_equal"][1] == pytest.approx(few / many)
    modules = found("with", "recurrent")["modules"]
    assert modules["encoder.blocks.*"] == ["Block", "—"]
    assert not any(name.startswith("encoder.blocks.*.") for name in modules)
