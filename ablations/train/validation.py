"""The loss that every trial is judged by: unsmoothed, over a whole split."""

from __future__ import annotations

import torch
from torch import nn

from ablations.tasks.task import Task
from ablations.train.devices import ALONE, Devices
from model.evaluating import evaluating
from model.loss import cross_entropy


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
