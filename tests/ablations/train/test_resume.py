"""A training that was interrupted and went on ends as if nothing had happened, bit for bit."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import small_task
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_task import Backwards, small_model

import ablations.train.loop
from ablations.signals import Stopped
from ablations.train.checkpoint import Checkpointer, copied
from ablations.train.config import OPTIMIZER, TrainConfig
from ablations.train.loop import Trainer, Training

CPU = torch.device("cpu")
STEPS = 14
POINTS = 4  # of the curve: at 4, 7, 11 and 14
LONG = ablations.train.loop.CURVE_POINTS
few = settings(max_examples=10)


@pytest.fixture(autouse=True, scope="module")
def a_short_curve() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ablations.train.loop, "CURVE_POINTS", POINTS)
        yield


def trainer_of(seed: int = 3, tied: str = "free", **options: Any) -> Trainer:
    optimizer = {"name": options.pop("optimizer", "adam"), "lr": options.pop("lr", 0.01)}
    config = TrainConfig(
        **{
            "steps": STEPS,
            "batch_tokens": 60,
            "micro_batches": 2,
            "optimizer": optimizer,
            **options,
        }
    )
    model = small_model(seed, dropout=0.2, tied=tied)
    return Trainer(model, Backwards(), config, seed, CPU)


def quiet(fraction: float, note: str) -> None:
    pass


def interrupted(folder: Path, stops: list[int], **options: Any) -> Trainer:
    """Stopped after each of these steps, and gone on with by a trainer that knows nothing."""
    for stop in sorted(stops):
        trainer = trainer_of(**options)
        torch.rand(stop)  # whatever else used the generator before
        keeper = Checkpointer(folder / "kept", {}, math.inf, lambda t=trainer, k=stop: t.step == k)
        with pytest.raises(Stopped):
            trainer.run(quiet, keeper)
        assert trainer.step == stop
    last = trainer_of(**options)
    last.run(quiet, Checkpointer(folder / "kept", {}, math.inf))
    return last


def assert_same(one: Trainer, two: Trainer) -> None:
    assert one.training == two.training
    torch.testing.assert_close(copied(one.model), copied(two.model), rtol=0, atol=0)


CHOICES: list[dict[str, Any]] = [{}, {"average": 0.9}, {"select": "best"}]


@pytest.fixture(scope="module", params=OPTIMIZER.components)
def wholes(request: pytest.FixtureRequest) -> list[Trainer]:
    """The uninterrupted trainings of an optimizer, one for each choice."""
    trainers = [trainer_of(optimizer=request.param, **choice) for choice in CHOICES]
    for trainer in trainers:
        trainer.run(quiet, None)
    return trainers


@few
@given(
    which=st.integers(0, len(CHOICES) - 1),
    stops=st.sets(st.integers(1, STEPS - 1), min_size=1, max_size=3),
)
def test_an_interrupted_training_ends_with_the_bits_of_an_uninterrupted_one(
    wholes: list[Trainer], which: int, stops: set[int]
) -> None:
    whole = wholes[which]
    optimizer = whole.config.optimizer["name"]
    with tempfile.TemporaryDirectory() as folder:
        parts = interrupted(Path(folder), list(stops), optimizer=optimizer, **CHOICES[which])
    assert_same(whole, parts)


def test_the_best_weights_from_before_the_interruption_are_still_chosen(tmp_path: Path) -> None:
    """The rate grows until it destroys what was learned."""
    options: Any = {"select": "best", "evaluations": STEPS, "optimizer": "sgd", "lr": 9}
    options["schedule"] = {"name": "constant", "warmup": 13}
    whole, parts = trainer_of(**options), interrupted(tmp_path, [12, 13], **options)
    whole.run(quiet, None)
    assert_same(whole, parts)
    found = {r.coordinates["step"]: r.value for r in parts.training.losses("valid")}
    assert min(found, key=lambda step: found[step] or math.inf) < 12
    torch.testing.assert_close(parts.best, copied(parts.model), rtol=0, atol=0)


def test_a_killed_process_is_gone_on_with_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.train.loop, "CURVE_POINTS", LONG)

    def run(death: float) -> int:
        words = [sys.executable, small_task.__file__, str(tmp_path / "killed"), str(death)]
        return subprocess.run(words, env={"PYTHONPATH": ":".join(sys.path)}).returncode

    assert run(0.6) == -signal.SIGKILL
    assert run(math.inf) == 0
    small_task.train_in(tmp_path / "whole")
    for file in ("trials/small.json", "checkpoints/small.safetensors"):
        whole, killed = ((tmp_path / name / file).read_bytes() for name in ("whole", "killed"))
        assert whole == killed, file


def test_another_training_does_not_go_on_from_it(tmp_path: Path) -> None:
    def run(seed: int, stamp: str) -> Training:
        keeper = Checkpointer(tmp_path / "kept", {"trial": stamp}, seconds=0.0)
        return trainer_of(seed).run(quiet, keeper)

    alone = trainer_of(4).run(quiet, None)
    run(3, "a")
    assert run(4, "b") == alone
