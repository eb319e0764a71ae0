"""How a training ends: its scores on the way, the loss it is judged by, the last step."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from small_task import Backwards, small_model

from ablations.train.checkpoint import Checkpointer
from ablations.train.config import TrainConfig
from ablations.train.loop import Trainer, Training, train, validate
from ablations.train.weights import copied

CPU = torch.device("cpu")


def judged(losses: list[float], best: float | None = None) -> tuple[str, str | None]:
    """The verdict on a training with these validation losses, the first of them untrained."""
    trainer = Trainer(small_model(), Backwards(), TrainConfig(steps=2), 0, CPU)
    for step, loss in enumerate(losses):
        trainer.training.add("loss", "nats/token", loss, step, "valid")
    trainer.training.add("loss", "nats/token", 0.01, len(losses) - 1, "train")
    if best is not None:
        trainer.best, trainer.best_loss = copied(trainer.model), best
    trainer.finish()
    return trainer.training.status, trainer.training.reason


TRIVIAL = Backwards().trivial("valid")["loss"]


def test_what_is_as_good_as_the_trivial_answer_is_stuck_and_what_is_better_is_not() -> None:
    assert judged([3.0, 2.5, TRIVIAL])[0] == "stuck"
    assert judged([3.0, 2.5, 0.9904 * TRIVIAL])[0] == "stuck", "a gain of luck"
    assert judged([3.0, 2.5, 0.9896 * TRIVIAL]) == ("ok", None)


@pytest.mark.parametrize("last", [TRIVIAL + 0.1, 9.0, math.nan])
def test_a_training_is_judged_by_the_weights_that_it_leaves(last: float) -> None:
    """The best ones, where those are chosen, whatever became of the model later."""
    assert judged([3.0, 0.5, last], best=0.5) == ("ok", None)
    assert judged([3.0, 0.5, last])[0] in ("stuck", "diverged")


def test_a_training_told_to_stop_in_its_last_step_ends_and_keeps_nothing(tmp_path: Path) -> None:
    """There is nothing left to go on with."""
    config = TrainConfig(steps=3, batch_tokens=60, evaluations=1)
    trainer = Trainer(small_model(), Backwards(), config, 0, CPU)
    keeper = Checkpointer(tmp_path / "kept", {}, is_stopping=lambda: trainer.step == 3)
    training = trainer.run(lambda *_: None, keeper)
    assert [measurement.coordinates["step"] for measurement in training.losses("valid")] == [0, 3]
    assert not list(tmp_path.iterdir())


# Two thirds of the way.


def trained(task: Backwards, **options: Any) -> tuple[torch.nn.Module, Training]:
    model = small_model(1, dropout=0.2)
    schedule = {"schedule": {"name": "constant"}, "optimizer": {"name": "adam", "lr": 0.01}}
    config = TrainConfig(batch_tokens=60, micro_batches=2, **schedule, **options)
    return model, train(model, task, config, 1, CPU, lambda *_: None)


def on_test(training: Training) -> dict[tuple[str, float], float | None]:
    return {
        (r.metric, float(r.coordinates["step"])): r.value
        for r in training.measurements
        if r.split == "test"
    }


@pytest.mark.parametrize("choice", [{}, {"average": 0.9}, {"select": "best"}], ids=str)
def test_at_two_thirds_the_scores_are_those_of_a_training_that_ends_there(
    choice: dict[str, Any],
) -> None:
    task = Backwards()
    _, long = trained(task, steps=19, evaluations=19, **choice)
    model, _ = trained(task, steps=13, evaluations=13, **choice)  # ceil(2 · 19 / 3)
    (score,), _ = task.scores(model, "test", CPU)
    assert on_test(long) == {
        ("error", 13): score.value,
        ("loss", 13): validate(model, task, CPU, "test"),
    }
    assert {r.unit for r in long.measurements if r.metric == "error"} == {"errors/label"}


@pytest.mark.parametrize(("steps", "at"), [(1, set()), (2, set()), (3, {2}), (4, {3}), (6, {4})])
def test_the_end_is_not_scored_twice(steps: int, at: set[int]) -> None:
    _, training = trained(Backwards(), steps=steps)
    assert {step for _, step in on_test(training)} == at


def test_being_scored_changes_nothing_of_what_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    model, training = trained(Backwards(), steps=15, average=0.9)
    monkeypatch.setattr(Trainer, "score", lambda _: None)
    other, unscored = trained(Backwards(), steps=15, average=0.9)
    assert [r for r in training.measurements if r.split != "test"] == unscored.measurements
    assert all(torch.equal(w, copied(other)[name]) for name, w in copied(model).items())


def test_a_task_that_cannot_be_scored_is_learned_all_the_same() -> None:
    class Mute(Backwards):
        def scores(self, *_: Any) -> Any:
            raise ValueError("nothing to say")

    _, training = trained(Mute(), steps=6)
    assert set(on_test(training)) == {("loss", 4)}
    assert training.losses("valid")[-1].coordinates == {"step": 6}
