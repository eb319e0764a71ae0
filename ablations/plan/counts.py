"""What a model has and does, counted without allocating it: parameters and FLOPs."""

from __future__ import annotations

from functools import cache

from ablations.plan.resolve import model_on_meta
from ablations.tasks.cache import load_task


@cache
def parameters(frozen_model: str, frozen_task: str) -> int:
    from model.count import parameters

    return parameters(model_on_meta(frozen_model, frozen_task))


@cache
def count(frozen_model: str, frozen_task: str) -> dict[str, float]:
    """Parameters, and forward FLOPs per token at the task's longest sequences."""
    import torch

    from model.count import flops_per_token

    model, task = model_on_meta(frozen_model, frozen_task), load_task(frozen_task)
    source_length = None if task.source_size is None else task.longest
    with torch.device("meta"):
        flops = flops_per_token(model, source_length, task.longest)
    return {"parameters": parameters(frozen_model, frozen_task), "flops_per_token": flops}
