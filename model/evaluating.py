"""A model as it answers: without dropout, and afterwards in the mode it was in before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
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
