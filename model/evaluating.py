"""A model as it answers: without dropout, and what it attends to while it reads a batch.

B: sequences, H: heads, T: queries, S: keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from model.attention import Shown
from model.batch import Batch


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode for the block."""
    with keeping_modes(model):
        model.eval()
        yield


@contextmanager
def keeping_modes(model: nn.Module) -> Iterator[None]:
    """Every module's own mode comes back, a frozen part's too, whatever happens in the block."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


@torch.inference_mode()
def attention(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """B H T S by the name of what attends; the fused path has nothing to show.

    A recurrent model's attention has one head.
    """
    found: dict[str, Tensor] = {}

    def watch(name: str) -> Any:
        def keep(module: nn.Module, given: Any, weights_BHTS: Tensor) -> None:
            found[name.removesuffix(".shown")] = weights_BHTS

        return keep

    hooks = [
        module.register_forward_hook(watch(name))
        for name, module in model.named_modules()
        if isinstance(module, Shown)
    ]
    try:
        with evaluating(model):
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    return found
