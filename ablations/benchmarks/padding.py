"""What it costs to pad further than a batch needs.

B: sequences, T: target positions, S: source positions, V: vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from ablations.measurement import MEASUREMENT, Benchmark, Metric, Place
from ablations.tasks.task import Budget, Task
from model.batch import IGNORE, PAD, Batch
from model.build import build
from model.layers import evaluating

OWN, LONGEST = "own", "longest"  # input of the batch, or of all the data
TOKENS = 2048  # of a batch, about


@MEASUREMENT.register("padding")
class Padding(Benchmark):
    """A pass over real training batches, padded to each one's own longest input or to that of all.

    Both are timed beside the control with batches padded to their own longest.
    """

    metrics: ClassVar = {"padded_time": Metric("s", "lower", "time of a pass", repeats="processes")}
    places: ClassVar = {"batches": [4], "to": [OWN, LONGEST]}
    words: ClassVar = {"to": (OWN, LONGEST)}
    along = "batches"
    beside: ClassVar = {"to": OWN}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        model = build(config["model"], task.source_size, task.target_size, config["seed"])
        model.to(device)
        some = itertools.islice(task.steps(0, Budget(TOKENS)), int(at["batches"]))
        given = [
            (padded(each, task.longest, task.longest) if at["to"] == LONGEST else each).to(device)
            for step in some
            for each in step
        ]

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                for batch in given:
                    model(batch)

        return call


def padded(batch: Batch, target: int, source: int) -> Batch:
    """The same batch with padding up to these lengths, and lengths that tell of it."""

    def wider(x_BT: Tensor | None, length: int, fill: int = PAD) -> Tensor | None:
        return (
            None if x_BT is None else F.pad(x_BT, (0, max(0, length - x_BT.shape[1])), value=fill)
        )

    def told(lengths_B: Tensor | None, x_BT: Tensor | None) -> Tensor | None:
        if lengths_B is not None or x_BT is None:
            return lengths_B
        return torch.full((len(x_BT),), x_BT.shape[1])

    labels = batch.labels if batch.labels.dim() == 1 else wider(batch.labels, target, IGNORE)
    assert labels is not None
    return replace(
        batch,
        labels=labels,
        inputs=wider(batch.inputs, target),
        lengths=told(batch.lengths, batch.inputs),
        source=wider(batch.source, source),
        source_lengths=told(batch.source_lengths, batch.source),
        segments=wider(batch.segments, source, 0),
    )
