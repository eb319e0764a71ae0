"""One step of training, and the loss that every trial is judged by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor, nn

from ablations.tasks.task import Task
from ablations.train.ddp import ALONE, Devices
from ablations.train.settings import TrainConfig
from model.batch import Batch, cross_entropy
from model.layers import evaluating


def compiled(model: nn.Module, config: TrainConfig) -> Callable[[Batch], Tensor]:
    """What training calls: the model, or the same weights behind torch.compile."""
    return torch.compile(model, dynamic=True) if config.compile else model


def update(
    model: Callable[[Batch], Tensor],
    parts: Sequence[Batch],
    tokens: float,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    in_turn: Callable[[Sequence[Batch]], Iterable[Batch]] = iter,
) -> tuple[Tensor, Tensor]:
    """One step: the loss per label of all parts together, and the norm of its gradient."""
    optimizer.zero_grad()
    total = parts[0].labels.new_zeros((), dtype=torch.float32)
    half = config.precision == "bfloat16"
    for batch in in_turn(parts):
        with torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=half):
            logits = model(batch)
            summed = cross_entropy(
                logits, batch.labels, config.label_smoothing, config.label_smoothing_over
            )
        loss = summed / tokens
        loss.backward()
        total += loss.detach()
    every = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.get_total_norm([p.grad for p in every if p.grad is not None])
    if config.clip is not None:
        nn.utils.clip_grads_with_norm_(every, config.clip, norm)
    optimizer.step()
    return total, norm


def validate(
    model: nn.Module,
    task: Task,
    device: torch.device,
    split: str = "valid",
    devices: Devices = ALONE,
) -> float:
    """Unsmoothed nats per label over a whole split; the model's mode is left as it was."""
    batches = task.evaluation_batches(split)  # which may be kept, so not in inference mode
    losses = [0.0] * len(batches)
    with evaluating(model), torch.inference_mode():
        for index in devices.own(len(batches)):
            moved = batches[index].to(device)
            losses[index] = float(cross_entropy(model(moved), moved.labels))
    total = 0.0
    for loss in devices.gathered(losses):  # one by one: `sum` rounds otherwise in later Pythons
        total += loss
    return total / sum(batch.tokens for batch in batches)
