"""The weights of a model in memory: copied, restored, averaged over training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn


def named(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and stored buffers; tied ones once, under the first of their names."""
    seen: dict[int, str] = {}
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            found[name] = tensor.detach()
    return found


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in named(model).items()}


@torch.no_grad()
def restore(model: nn.Module | Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Write `weights` into a model, or into tensors of the same names."""
    into = named(model) if isinstance(model, nn.Module) else model
    if into.keys() != weights.keys():
        wrong = sorted(into.keys() ^ weights.keys())[0]
        raise ValueError(f"{wrong} is in one of the two alone")
    for name, tensor in into.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{list(tensor.shape)}, not {list(weights[name].shape)}"
            raise ValueError(f"{name} has the shape {shapes}")
    for name, tensor in into.items():
        tensor.copy_(weights[name])


@contextmanager
def holding(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """The model with these weights in place of its own; None leaves its own."""
    if weights is None:
        yield
        return
    own = copied(model)
    restore(model, weights)
    try:
        yield
    finally:
        restore(model, own)


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

    def applied(self) -> AbstractContextManager[None]:
        """The model with the mean in place of its own weights."""
        return holding(self.model, self.weights)
