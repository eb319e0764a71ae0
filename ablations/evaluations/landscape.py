"""How curved the loss is around trained weights.

R: rows of a matrix, F: the weights of a row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measurement import MEASUREMENT, Evaluation, Measured, Metric
from ablations.store.record import Measurement
from ablations.tasks.batching import some, summed_loss
from ablations.tasks.task import Task
from model.batch import Batch
from model.layers import evaluating

# As a share of each row's length. It measures the curvature of a neighbourhood, not the Hessian: a
# smaller step crosses few kinks of the ReLUs, and which ones depends on the examples.
STEP = 0.1
DIRECTIONS = 6
PLACES = [k / 5 for k in range(-5, 6)]  # of the surface, along each of the first two directions
TOKENS = 2048  # that are read for one loss, about
Direction = dict[str, Tensor]  # matrix → how it moves


@MEASUREMENT.register("landscape")
class Landscape(Evaluation):
    """Curvature along random directions d, each row of which is as long as the weights' own row:

        mean over d of (L(θ + a d) + L(θ − a d) − 2 L(θ)) / a²

    and the loss over the plane of two of them (Li et al. 2018, filter normalisation). Vectors, such
    as biases and gains, stay where they are, as there. With rows of equal length the size of the
    weights does not matter where the model undoes it: two models can be compared.
    """

    metrics: ClassVar = {"curvature": Metric("nats/token", "lower", "curvature of the loss")}

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        batches = [batch.to(device) for batch in some(task.evaluation_batches("valid"), TOKENS)]
        at: dict[str, float | str] = {"step": step}
        with evaluating(model), torch.no_grad(), restoring(model) as first:
            directions = [direction(first, index) for index in range(DIRECTIONS)]

            def loss(*moves: tuple[float, Direction]) -> float:
                move(model, first, moves)
                return mean_loss(model, batches)

            middle = loss()
            bends = [loss((STEP, d)) + loss((-STEP, d)) - 2 * middle for d in directions]
            one, other, *_ = directions
            plane = [[loss((x, one), (y, other)) for y in PLACES] for x in PLACES]
        curvature = sum(bends) / len(bends) / STEP**2
        values = [[each if math.isfinite(each) else None for each in row] for row in plane]
        axes: dict[str, list[Any]] = {"x": [*PLACES], "y": [*PLACES]}
        surface = Measurement("surface", "nats/token", None, "valid", at, axes=axes, values=values)
        return Measured([self.measurement("curvature", curvature, at, split="valid"), surface])


def direction(weights: Direction, index: int) -> Direction:
    """Normal numbers seeded by name and index, each row as long as the weights' own."""
    found = {}
    for name, weight in weights.items():
        digest = sha256(f"{name} {index}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big"))
        drawn_RF = torch.randn(weight.shape, generator=generator).to(weight).flatten(1)
        own_R1 = weight.flatten(1).norm(dim=1, keepdim=True)
        scaled_RF = drawn_RF * (own_R1 / drawn_RF.norm(dim=1, keepdim=True))
        found[name] = scaled_RF.view_as(weight)
    return found


@contextmanager
def restoring(model: nn.Module) -> Iterator[Direction]:
    """Yields a copy of the matrices, and restores them after the block."""
    first = {
        name: weight.detach().clone()
        for name, weight in model.named_parameters()
        if weight.dim() >= 2
    }
    try:
        yield first
    finally:
        move(model, first, ())


@torch.no_grad()
def move(model: nn.Module, first: Direction, moves: Sequence[tuple[float, Direction]]) -> None:
    """Set each matrix to its first value, moved along these directions."""
    matrices = dict(model.named_parameters())
    for name, weight in first.items():
        matrices[name].copy_(weight)
        for scale, direction in moves:
            matrices[name].add_(direction[name], alpha=scale)


def mean_loss(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Nats per label."""
    device = batches[0].labels.device
    return summed_loss(model, batches, device) / sum(batch.tokens for batch in batches)
