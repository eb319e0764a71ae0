"""How large the first gradient is in each layer of stacks of several depths."""

from __future__ import annotations

import statistics
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Budget, Task
from model.batch import Batch, cross_entropy
from model.build import build
from model.layers import evaluating
from model.transformer import Stack

DEPTHS = (2, 4, 8, 16, 32)
TOKENS = 512  # of the batch, about
DRAWS = 4  # of first weights, whose luck is several times that of the batch
APART = 1_000_000  # so that no trial draws the weights of another
UNIT = "nats/label"


@MEASURE.register("gradients")
class Gradients(Probe):
    """|∂loss/∂W₂| at initialisation, W₂ the second matrix of a block's feed-forward.

    last_gradient: of the last block, which by Xiong et al. 2020 (3.3) is of the order of 1 with
    post-norm and of 1/√depth with pre-norm. The loss is that of training, on one batch and without
    dropout; a decoder counts where there are two stacks. It is the geometric mean over several
    draws of the first weights.
    """

    quantities: ClassVar = {
        "last_gradient": Quantity(UNIT, "lower", "gradient norm in the last block")
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        (batch,) = next(task.steps(config["seed"], Budget(TOKENS)))
        smoothing = {
            "smoothing": config["train"]["label_smoothing"],
            "over": config["train"]["label_smoothing_over"],
        }
        readings = []
        for depth in DEPTHS:
            deep = {**config["model"], "depth": depth}
            drawn = []
            for draw in range(DRAWS):
                seed = config["seed"] + draw * APART
                model = build(deep, task.source_size, task.target_size, seed).to(device)
                drawn.append(gradient_norms(model, batch.to(device), **smoothing)[-1])
            last = statistics.geometric_mean(drawn)
            readings.append(Reading("last_gradient", UNIT, last, at={"depth": depth}))
        return Taken(readings)


def gradient_norms(model: nn.Module, batch: Batch, **smoothing: Any) -> list[float]:
    """From the first block to the last."""
    weights = second_matrices(model)
    with evaluating(model):
        loss = cross_entropy(model(batch), batch.labels, **smoothing) / batch.tokens
    return [float(gradient.norm()) for gradient in torch.autograd.grad(loss, weights)]


def second_matrices(model: nn.Module) -> list[Tensor]:
    """One for each block of the stack that the head reads."""
    stacks = [part for part in model.modules() if isinstance(part, Stack)]
    if not stacks:
        raise ValueError("this model has no stack of blocks: choose a transformer")
    downs = [getattr(block.feedforward, "down", None) for block in stacks[-1].blocks]
    if not all(isinstance(down, nn.Linear) for down in downs):
        raise ValueError("these blocks have no feed-forward: choose another model.feedforward")
    return [down.weight for down in downs if down is not None]
