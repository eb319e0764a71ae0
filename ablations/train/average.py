"""A running mean of the weights over training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ablations.train.weights import copied, named, restore


class Average:
    """A running mean of the weights over training: θ̄ ← d θ̄ + (1 − d) θ (Polyak & Juditsky 1992).

    At step t the decay is at most (1 + t) / (10 + t), so that the first weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.weights = copied(model)
        pairs = zip(self.weights.values(), named(model).values(), strict=True)
        self._pairs = [pair for pair in pairs if pair[0].is_floating_point()]

    @torch.no_grad()
    def follow(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        means, now = zip(*self._pairs, strict=True)
        torch._foreach_lerp_(means, now, 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model with the mean in place of its own weights."""
        own = copied(self.model)
        restore(self.model, self.weights)
        try:
            yield
        finally:
            restore(self.model, own)
