"""The loss that every trial is judged by: unsmoothed, over a whole split."""

from __future__ import annotations

import torch
from torch import nn

from ablations.tasks.task import Task
from model.evaluating import evaluating
from model.loss import cross_entropy


def validate(model: nn.Module, task: Task, device: torch.device, split: str = "valid") -> float:
    """Unsmoothed nats per label over a whole split; the model's mode is left as it was."""
    batches = task.evaluation_batches(split)  # which may be kept, so not in inference mode
    total, tokens = 0.0, 0
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            moved = batch.to(device)
            total += float(cross_entropy(model(moved), moved.labels))
            tokens += batch.tokens
    return total / tokens
