"""Whether a model has an answer past the length that it was built for."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.measure.throughput import random_batch
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.build import build
from model.evaluating import evaluating

END = "max_len"  # as the settings call it
PAST = 1  # tokens


@MEASURE.register("reach")
class Reach(Probe):
    """1 where sequences of max_len + 1 tokens are answered, 0 where they are refused in words.

    A table of positions has no row for such a place (Gehring et al. 2017); a formula has a value
    for any.
    """

    quantities: ClassVar = {
        "answers_past": Quantity("1", "higher", "whether it answers past max_len", "nothing")
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        end = config["model"].get(END)
        if end is None:
            raise ValueError("this model has no max_len to go past: choose a transformer")
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        # What is refused at max_len itself is refused for another reason, and told as such.
        assert answers(model, task, end, device), "no finite answer within max_len"
        try:
            past = answers(model, task, end + PAST, device)
        except ValueError as error:
            if END not in str(error):
                raise
            past = False
        return Taken([Reading("answers_past", "1", float(past))])


def answers(model: Any, task: Task, length: int, device: torch.device) -> bool:
    """Whether it has numbers to say of a sequence of this length, or of two."""
    with evaluating(model), torch.inference_mode():
        return bool(model(random_batch(task, length, 1).to(device)).isfinite().all())
