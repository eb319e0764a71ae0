"""How good the answers are: unsmoothed loss, the task's own scores, and what is trivial."""

from __future__ import annotations

import torch
from torch import nn

from ablations.measure import MEASURE, Measure, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Example, Score, Task
from ablations.train.step import validate


@MEASURE.register("quality")
class Quality(Measure):
    """Loss and scores on valid and test, from the weights that training chose.

    `trivial_…` is what an answer reaches that does not look at the question.
    """

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        at: dict[str, float | str] = {"step": step}
        test_loss = validate(model, task, device, "test")
        readings = [Reading("loss", "nats/token", test_loss, split="test", at=at)]
        examples: list[Example] = []
        items: dict[str, list[float | None]] = {}
        for split in ("valid", "test"):
            scores, examples = task.scores(model, split, device)
            readings += [_reading(task, score, split, at) for score in scores]
            if split == "test":
                items = {s.metric: [*s.items] for s in scores if s.items is not None and not s.at}
            for name, value in task.trivial(split).items():
                unit = "nats/token" if name == "loss" else task.metrics[name].unit
                if (name, split) != ("loss", "valid"):  # which the training has noted
                    readings.append(Reading(f"trivial_{name}", unit, value, split=split))
            for name, value in task.copied(split).items():
                unit = task.metrics[name].unit
                readings.append(Reading(f"copied_{name}", unit, value, split=split))
        return Taken(readings, examples, items)


def _reading(task: Task, score: Score, split: str, at: dict[str, float | str]) -> Reading:
    unit = task.metrics[score.metric].unit
    where = {**at, **score.at}
    return Reading(score.metric, unit, score.value, split=split, at=where, reason=score.reason)
