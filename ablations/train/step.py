"""One step of training: forward, backward, update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from ablations.train.settings import TrainConfig
from model.batch import Batch
from model.loss import cross_entropy


def compiled(model: nn.Module, config: TrainConfig) -> Callable[[Batch], Tensor]:
    """What training calls: the model, or the same weights behind torch.compile."""
    return torch.compile(model, dynamic=True) if config.compile else model


def update(
    model: Callable[[Batch], Tensor],
    parts: Sequence[Batch],
    tokens: float,
    optimiser: torch.optim.Optimizer,
    config: TrainConfig,
    in_turn: Callable[[Sequence[Batch]], Iterable[Batch]] = iter,
) -> tuple[Tensor, Tensor]:
    """One step: the loss per label of all parts together, and the norm of its gradient."""
    optimiser.zero_grad()
    total = parts[0].labels.new_zeros((), dtype=torch.float32)
    half = config.precision == "bfloat16"
    for batch in in_turn(parts):
        with torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=half):
            logits = model(batch)
            summed = cross_entropy(logits, batch.labels, config.smoothing, config.smoothing_over)
        loss = summed / tokens
        loss.backward()
        total += loss.detach()
    every = [p for group in optimiser.param_groups for p in group["params"]]
    norm = nn.utils.get_total_norm([p.grad for p in every if p.grad is not None])
    if config.clip is not None:
        nn.utils.clip_grads_with_norm_(every, config.clip, norm)
    optimiser.step()
    return total, norm
