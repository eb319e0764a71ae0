"""Sines and cosines of falling frequency, added at the input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.family import ConfigError
from model.position import POSITION, Position


@POSITION.register("sinusoidal")
class Sinusoidal(Position):
    """p[2i] = sin(pos / base^(2i/d)), p[2i+1] = cos of the same (Vaswani et al. 2017, 3.5)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        base: float = 10_000.0

        def __post_init__(self) -> None:
            if self.base <= 0:
                raise ConfigError([f"base={self.base}: must be positive"])

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__()
        self.base, self.width = config.base, d_model

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        return x_BTD + self.table(positions_T).to(x_BTD.dtype)

    def table(self, positions_T: Tensor) -> Tensor:
        """T D, computed in double precision: float32 loses the phase of far positions."""
        steps = torch.arange(0, self.width, 2, device=positions_T.device, dtype=torch.float64)
        angles = positions_T[:, None] * self.base ** (-steps / self.width)
        return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[:, : self.width]
