"""How long a training step takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ablations.measure import MEASURE, Timing
from ablations.tasks.task import Task
from ablations.train.optimiser import OPTIMISER
from ablations.train.settings import TrainConfig
from ablations.train.step import compiled, update
from model.batch import BOS, Batch
from model.build import build


@MEASURE.register("throughput")
class Throughput(Timing):
    """Forward, backward and update on random tokens, nothing padded."""

    metric = "step_time"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, length: int, batch: int
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device).train()
        settings = TrainConfig(**config["train"])
        forward = compiled(model, settings)
        optimiser = OPTIMISER.build(settings.optimiser, parameters=model.parameters())
        generator = torch.Generator().manual_seed(0)

        def tokens(size: int, length: int) -> torch.Tensor:
            return torch.randint(BOS, size, (batch, length), generator=generator)

        source = None if task.source_size is None else tokens(task.source_size, length)
        if task.per == "sequence":
            data = Batch(tokens(task.target_size, 1).squeeze(1), source=source)
        else:
            data = Batch.shifted(tokens(task.target_size, length + 1), source_BS=source)
        moved = data.to(device)

        def step() -> None:
            update(forward, [moved], data.tokens, optimiser, settings)

        return step
