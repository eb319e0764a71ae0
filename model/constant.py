"""Numbers that are neither trained nor stored, and never wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class Constant(nn.Module):
    """Written down in Python, kept as a tensor of the model's device and precision.

    A model may be built on the meta device, given memory and loaded: what no file holds would then
    be whatever stood in that memory. So the numbers are written anew whenever the tensor is made
    anew.
    """

    values: Tensor

    def __init__(self, numbers: Sequence[int] | Sequence[float]) -> None:
        super().__init__()
        self.numbers = tuple(numbers)
        self.register_buffer("values", torch.tensor(self.numbers), persistent=False)

    def forward(self, device: torch.device) -> Tensor:
        """The numbers where they are asked for; elsewhere they are after a load that assigns."""
        if self.values.device != device:
            self.values = torch.tensor(self.numbers, dtype=self.values.dtype, device=device)
        return self.values

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Every move to a device or a precision, and `to_empty`, comes through here."""
        super()._apply(fn, recurse)
        if not self.values.is_meta:
            self.values = torch.tensor(
                self.numbers, dtype=self.values.dtype, device=self.values.device
            )
        return self
