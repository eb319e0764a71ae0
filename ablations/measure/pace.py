"""How long training steps take on the task's own batches, as a trial would take them."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from ablations.measure import MEASURE, Place, Quantity, Timing
from ablations.tasks.task import Budget, Task
from ablations.train.optimiser import OPTIMISER
from ablations.train.settings import TrainConfig
from ablations.train.step import compiled, update
from model.build import build


@MEASURE.register("pace")
class PaceTime(Timing):
    """Forward, backward and update over the first steps' batches, padding and all."""

    quantities: ClassVar = {
        "pace_time": Quantity("s", "lower", "time of some training steps", repeats="processes")
    }
    places: ClassVar = {"steps": [8]}
    along = "steps"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device).train()
        settings = TrainConfig(**config["train"])
        forward = compiled(model, settings)
        optimiser = OPTIMISER.build(settings.optimiser, parameters=model.parameters())
        budget = Budget(settings.batch_tokens, settings.parts)
        drawn = itertools.islice(task.steps(config["seed"], budget), int(at["steps"]))
        steps = [[batch.to(device) for batch in step] for step in drawn]
        sizes = [sum(batch.tokens for batch in step) for step in steps]

        def call() -> None:
            for step, tokens in zip(steps, sizes, strict=True):
                update(forward, step, tokens, optimiser, settings)

        return call
