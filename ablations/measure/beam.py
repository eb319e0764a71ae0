"""How good the answers are when several are followed at once."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from ablations.measure import MEASURE, Measure, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.generate import Answer, Generator, Question, beam

WIDTH = 4


@MEASURE.register("beam")
class Beam(Measure):
    """The task's scores on test with a beam of four, each answer's worth normalised by length."""

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        scores, _ = task.scores(model, "test", device, partial(_best, width=WIDTH))
        at: dict[str, float | str] = {"step": step, "beam": WIDTH}
        readings = [
            Reading(s.metric, task.metrics[s.metric].unit, s.value, "test", {**at, **s.at},
                    reason=s.reason)
            for s in scores
        ]  # fmt: skip
        return Taken(readings)


def _best(model: Generator, question: Question, longest: int, width: int) -> list[Answer]:
    return [best for best, *_ in beam(model, question, longest, width)]
