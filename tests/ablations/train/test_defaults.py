"""What a training is when nobody says otherwise: a variant that names a part bare gets this.

A change here is a change of published numbers, though no YAML shows it: name it in the commit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ablations.train.checkpoint import Checkpointer
from ablations.train.config import TrainConfig
from ablations.train.optimizer import OPTIMIZER, SCHEDULE

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9},  # Vaswani et al. 2017
    "adamw": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "weight_decay": 0.01},
    "sgd": {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0},
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
    "micro_batches": 1,
    "optimizer": {"name": "adam"},
    "schedule": {"name": "linear"},
    "clip": 1.0,
    "label_smoothing": 0.0,
    "label_smoothing_over": "all",
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
    [(OPTIMIZER, OPTIMIZERS), (SCHEDULE, SCHEDULES)],
    ids=["optimizer", "schedule"],
)
def test_a_part_that_is_named_bare_has_these_options(family: Any, table: dict[str, Any]) -> None:
    bare = {name: family.resolve({"name": name}) for name in family.components}
    assert bare == {name: {"name": name, **options} for name, options in table.items()}


def test_a_killed_training_loses_a_minute_at_most(tmp_path: Path) -> None:
    assert Checkpointer(tmp_path / "kept", {}).seconds <= 60
