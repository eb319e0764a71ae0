"""Small additions to torch layers, hooks, and evaluation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn


@contextmanager
def hooked(modules: Iterable[nn.Module], hook: Callable[..., Any]) -> Iterator[None]:
    """A forward hook on each module for the block."""
    with ExitStack() as exits:
        for module in modules:
            exits.callback(module.register_forward_hook(hook).remove)
        yield


class Dropout(nn.Dropout):
    """nn.Dropout that skips the call where nothing would be dropped, to save time in generation."""

    def __call__(self, x: Tensor, *rest: Any) -> Tensor:
        return super().__call__(x, *rest) if self.training and self.p else x


class Joint(nn.Linear):
    """Several projections of one input in one matrix product, initialised one by one."""

    def __init__(self, d_in: int, widths: dict[str, int], bias: bool) -> None:
        super().__init__(d_in, sum(widths.values()), bias=bias)
        self.widths = list(widths.values())
        rows = list(widths.items())
        self.splits = {"weight": rows, "bias": rows}

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(x).split_with_sizes(self.widths, dim=-1)


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Evaluation mode for the block."""
    with keeping_modes(model):
        model.eval()
        yield


@contextmanager
def keeping_modes(model: nn.Module) -> Iterator[None]:
    """Restores the training mode of every module after the block."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training
