"""The index in base two, at the input."""

from __future__ import annotations

import torch
from torch import Tensor

from model.position import POSITION
from model.position.input import InputScheme


@POSITION.register("binary")
class Binary(InputScheme):
    """⌈log₂ max_len⌉ digits of 0 or 1, the highest first; there are none for more positions."""

    def __init__(self, config: InputScheme.Config, d_model: int, max_len: int) -> None:
        digits = max(1, (max_len - 1).bit_length())
        super().__init__(config, d_model, digits)
        self.digits, self.reach = digits, max_len

    def vectors(self, positions_T: Tensor) -> Tensor:
        powers = torch.arange(self.digits - 1, -1, -1, device=positions_T.device)
        return (positions_T[:, None] >> powers) & 1
