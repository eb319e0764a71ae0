"""A model that fails in the middle of being asked is left in the mode that it was in."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from task_subjects import task_subject
from torch import Tensor, nn

from ablations.measure.calibration import Calibration
from ablations.tasks import TASK, Task
from ablations.train.step import validate
from model.batch import Batch
from model.generate import Decoding

CPU = torch.device("cpu")
Ask = Callable[[nn.Module, Task], object]
DOORS: dict[str, Ask] = {
    "scores": lambda model, task: task.scores(model, "test", CPU),
    "validate": lambda model, task: validate(model, task, CPU, "test"),
    "calibration": lambda model, task: Calibration().take(model, task, CPU, 1),
}


class Breaks(nn.Module):
    """Computes what its model does, once; the second time it cannot."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        self.calls = 0

    def forward(self, batch: Batch) -> Tensor:
        self._count()
        return self.model(batch)

    def begin(self, *question: Any) -> Decoding:
        self._count()
        return self.model.begin(*question)

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        return self.model.step(tokens_BT, decoding)

    def _count(self) -> None:
        assert not any(module.training for module in self.modules())
        self.calls += 1
        if self.calls == 2:
            raise RuntimeError("the second batch is too much")


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every task has a second batch to ask."""
    monkeypatch.setattr("ablations.tasks.generated.EVALUATION_BATCH", 32)
    monkeypatch.setattr("ablations.tasks.batching.EVALUATION_TOKENS", 512)


@pytest.mark.parametrize("name", TASK.parts)
def test_a_model_that_breaks_at_the_second_batch_keeps_its_mode(name: str) -> None:
    subject = task_subject(name)
    task = subject.built()
    for training, (door, ask) in product((True, False), DOORS.items()):
        model = Breaks(subject.model(task)).train(training)
        with pytest.raises(RuntimeError, match="too much"):
            ask(model, task)
        assert all(module.training is training for module in model.modules()), (
            f"{door} left the model in another mode: ask it inside `evaluating(model)`"
        )
