"""Modules with weights that a test can write out as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from slow_formulas import Matrix, Vector
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

M = TypeVar("M", bound=nn.Module)


def randomised(module: M, seed: int = 0, std: float = 0.4) -> M:
    """In double precision and evaluation mode, every parameter random: no gain of one, no zero."""
    generator = torch.Generator().manual_seed(seed)
    module.double().eval()
    with torch.no_grad():
        for parameter in module.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(drawn * std)
    return module


def random(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def affine(module: Any) -> tuple[Matrix, Vector | None]:
    """Weight and bias of a projection or a norm."""
    return module.weight.tolist(), None if module.bias is None else module.bias.tolist()


def assert_equals(actual: Tensor, by_hand: Any) -> None:
    """To twelve digits or so: both sides are in double precision."""
    expected = torch.as_tensor(by_hand, dtype=torch.float64)
    torch.testing.assert_close(actual.detach(), expected.detach(), rtol=1e-10, atol=1e-10)


class _Calls(TorchFunctionMode):
    count = 0

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        self.count += 1
        return function(*arguments, **(options or {}))


def calls(run: Callable[[], Any]) -> int:
    """How often Python asks the library for something while this runs."""
    with _Calls() as asked:
        run()
    return asked.count
