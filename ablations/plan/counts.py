"""What a model has and does, counted without allocating it: parameters and FLOPs."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from ablations.plan.resolve import model_on_meta
from ablations.tasks.cache import load_task

if TYPE_CHECKING:
    from model.count import Cost


@cache
def parameters(frozen_model: str, frozen_task: str) -> int:
    from model.count import parameters

    return parameters(model_on_meta(frozen_model, frozen_task))


def count(frozen_model: str, frozen_task: str) -> dict[str, float]:
    """Parameters, and forward FLOPs per token at the task's longest sequences."""
    flops = _cost(frozen_model, frozen_task).flops_per_token
    return {"parameters": parameters(frozen_model, frozen_task), "flops_per_token": flops}


def kept_bytes(frozen_model: str, frozen_task: str) -> float:
    """What a token leaves for the backward pass on a CPU, at the task's longest sequences."""
    cost = _cost(frozen_model, frozen_task)
    return cost.kept_bytes / cost.tokens


@cache
def _cost(frozen_model: str, frozen_task: str) -> Cost:
    import torch

    from model.count import count

    model, task = model_on_meta(frozen_model, frozen_task), load_task(frozen_task)
    source_length = None if task.source_size is None else task.longest
    with torch.device("meta"):
        return count(model, source_length, task.longest)
