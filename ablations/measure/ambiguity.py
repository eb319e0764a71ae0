"""How much harder words are that can be said in several ways."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from ablations.measure import MEASURE, Measure, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task

SIDES = ("per_several", "per_one")


@MEASURE.register("ambiguity")
class Ambiguity(Measure):
    """per_excess: the phone error rate of test words with several pronunciations, each against the
    nearest of them, less that of words with one. What lowers it helps most where several answers
    are right."""

    quantities: ClassVar = {
        "per_excess": Quantity("edits/phone", "lower", "excess error rate of ambiguous words")
    }

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        value, reason = None, None
        if set(SIDES) <= set(task.metrics):
            scores = {each.metric: each for each in task.scores(model, "test", device)[0]}
            several, one = (scores[name] for name in SIDES)
            if several.value is None or one.value is None:
                reason = several.reason or one.reason
            else:
                value = several.value - one.value
        else:
            reason = "ambiguity is of words with several pronunciations: choose the task g2p"
        at: dict[str, float | str] = {"step": step}
        return Taken([Reading("per_excess", "edits/phone", value, "test", at, reason=reason)])
