"""What a training is when nobody says otherwise: a variant that names a part bare gets this.

A change here is a change of published numbers, though no YAML shows it: name it in the commit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from ablations.train.optimiser import OPTIMISER, SCHEDULE
from ablations.train.settings import TrainConfig
from ablations.train.unfinished import Keeper

OPTIMISERS: dict[str, dict[str, Any]] = {
    "adam": {"rate": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9},  # Vaswani et al. 2017
    "adamw": {"rate": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "weight_decay": 0.01},
    "sgd": {"rate": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {"warmup": 0},
    "linear": {"warmup": 0},
    "cosine": {"warmup": 0, "floor": 0.0},
    "noam": {"warmup": 4000},
}
TRAINING: dict[str, Any] = {
    "steps": 1000,
    "batch_tokens": 2048,
    "parts": 1,
    "optimiser": {"name": "adam"},
    "schedule": {"name": "linear"},
    "clip": 1.0,
    "smoothing": 0.0,
    "smoothing_over": "all",
    "evaluations": 5,
    "select": "last",
    "average": None,
    "precision": "float32",
    "compile": False,
}


def test_a_training_is_this_when_nobody_says_otherwise() -> None:
    assert vars(TrainConfig()) == TRAINING


@pytest.mark.parametrize(
    ("family", "table"),
    [(OPTIMISER, OPTIMISERS), (SCHEDULE, SCHEDULES)],
    ids=["optimiser", "schedule"],
)
def test_a_part_that_is_named_bare_has_these_options(family: Any, table: dict[str, Any]) -> None:
    bare = {name: family.resolve({"name": name}) for name in family.parts}
    assert bare == {name: {"name": name, **options} for name, options in table.items()}


def test_the_options_of_adam_are_those_that_torch_steps_with() -> None:
    for name in ("adam", "adamw"):
        optimiser = OPTIMISER.build(name, parameters=[nn.Parameter(torch.ones(2, 2))])
        (group, *_) = optimiser.param_groups
        assert (group["lr"], group["betas"], group["eps"]) == (1e-3, (0.9, 0.98), 1e-9)
    assert group["weight_decay"] == 0.01


def test_a_bare_linear_schedule_falls_from_the_first_step_to_one_past_the_last() -> None:
    schedule = SCHEDULE.build("linear", steps=4)
    assert [schedule.share(step) for step in range(1, 6)] == [0.8, 0.6, 0.4, 0.2, 0.0]


def test_a_bare_noam_schedule_peaks_at_step_4000() -> None:
    schedule = SCHEDULE.build("noam", steps=100_000)
    shares = {step: schedule.share(step) for step in (1, 3999, 4000, 4001, 16_000)}
    assert max(shares, key=lambda step: shares[step]) == 4000
    assert (shares[1], shares[4000], shares[16_000]) == (1 / 4000, 1.0, 0.5)


def test_a_killed_training_loses_a_minute_at_most(tmp_path: Path) -> None:
    assert Keeper(tmp_path / "kept", {}).seconds <= 60
