"""How a training ends: by which loss it is judged, and that the last step is the last."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from small_task import Backwards, small_model

from ablations.train.loop import Trainer
from ablations.train.settings import TrainConfig
from ablations.train.unfinished import Keeper
from ablations.train.weights import copied

CPU = torch.device("cpu")


def judged(losses: list[float], best: float | None = None) -> tuple[str, str | None]:
    """The verdict on a training with these validation losses, the first of them untrained."""
    trainer = Trainer(small_model(), Backwards(), TrainConfig(steps=2), 0, CPU)
    for step, loss in enumerate(losses):
        trainer.training.note("loss", "nats/token", loss, step, "valid")
    trainer.training.note("loss", "nats/token", 0.01, len(losses) - 1, "train")
    if best is not None:
        trainer.best, trainer.best_loss = copied(trainer.model), best
    trainer.finish()
    return trainer.training.status, trainer.training.reason


TRIVIAL = Backwards().trivial("valid")["loss"]


def test_what_is_as_good_as_the_trivial_answer_is_stuck_and_what_is_better_is_not() -> None:
    assert judged([3.0, 2.5, TRIVIAL])[0] == "stuck"
    assert judged([3.0, 2.5, 0.9904 * TRIVIAL])[0] == "stuck", "a gain of luck"
    assert judged([3.0, 2.5, 0.9896 * TRIVIAL]) == ("ok", None)


def test_what_ends_as_it_began_has_not_diverged() -> None:
    status, reason = judged([3.0, 2.9, 3.0])
    assert status == "stuck"
    assert "no better than the trivial" in (reason or "")


@pytest.mark.parametrize("last", [TRIVIAL + 0.1, 9.0, math.nan])
def test_a_training_is_judged_by_the_weights_that_it_leaves(last: float) -> None:
    """The best ones, where those are chosen, whatever became of the model later."""
    assert judged([3.0, 0.5, last], best=0.5) == ("ok", None)
    assert judged([3.0, 0.5, last])[0] in ("stuck", "diverged")


def test_a_training_told_to_stop_in_its_last_step_ends_and_keeps_nothing(tmp_path: Path) -> None:
    """There is nothing left to go on with."""
    config = TrainConfig(steps=3, batch_tokens=60, evaluations=1)
    trainer = Trainer(small_model(), Backwards(), config, 0, CPU)
    keeper = Keeper(tmp_path / "kept", {}, is_stopping=lambda: trainer.step == 3)
    training = trainer.run(lambda *_: None, keeper)
    assert [reading.at["step"] for reading in training.losses("valid")] == [0, 3]
    assert not list(tmp_path.iterdir())
