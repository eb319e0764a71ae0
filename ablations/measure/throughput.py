"""How long a whole model takes: a training step, or a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch

from ablations.measure import MEASURE, Place, Quantity, Timing
from ablations.tasks.task import Task
from ablations.train.optimiser import OPTIMISER
from ablations.train.settings import TrainConfig
from ablations.train.step import compiled, update
from model.batch import BOS, Batch
from model.build import build
from model.evaluating import evaluating


@MEASURE.register("throughput")
class Throughput(Timing):
    """Forward, backward and update, or forward alone, on random tokens; nothing is padded."""

    quantities: ClassVar = {
        "step_time": Quantity("s", "lower", "time of a step", repeats="processes")
    }
    places: ClassVar = {"length": [16], "batch": [64], "pass": ["training"]}
    words: ClassVar = {"pass": ("forward", "training")}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        settings = TrainConfig(**config["train"])
        forward = compiled(model, settings)
        data = random_batch(task, int(at["length"]), int(at["batch"]))
        moved = data.to(device)
        if at["pass"] == "forward":

            def call() -> None:
                with evaluating(model), torch.inference_mode():
                    forward(moved)

            return call
        model.train()
        optimiser = OPTIMISER.build(settings.optimiser, parameters=model.parameters())

        def step() -> None:
            update(forward, [moved], data.tokens, optimiser, settings)

        return step


def random_batch(task: Task, length: int, batch: int) -> Batch:
    """Tokens without meaning, as long as asked: the same for every model."""
    generator = torch.Generator().manual_seed(0)

    def tokens(size: int, length: int) -> torch.Tensor:
        return torch.randint(BOS, size, (batch, length), generator=generator)

    source = None if task.source_size is None else tokens(task.source_size, length)
    if task.per == "sequence":
        return Batch(tokens(task.target_size, 1).squeeze(1), source=source)
    return Batch.shifted(tokens(task.target_size, length + 1), source_BS=source)
