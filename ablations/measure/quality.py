"""How good the answers are: unsmoothed loss and the task's own scores."""

from __future__ import annotations

import torch
from torch import nn

from ablations.measure import MEASURE, Measure
from ablations.record import Reading
from ablations.tasks.task import Task
from ablations.train import validate


@MEASURE.register("quality")
class Quality(Measure):
    """Loss and scores on valid and test, from the weights at the end of training."""

    def take(
        self, model: nn.Module, task: Task, device: torch.device, step: int
    ) -> tuple[list[Reading], list[dict[str, str]]]:
        at: dict[str, float] = {"step": step}
        test_loss = validate(model, task, device, "test")
        readings = [Reading("loss", "nats/token", test_loss, split="test", at=at)]
        examples: list[dict[str, str]] = []
        for split in ("valid", "test"):
            scores, examples = task.scores(model, split, device)
            for name, value in scores.items():
                readings.append(Reading(name, task.metrics[name].unit, value, split=split, at=at))
        return readings, examples
