"""Sines and cosines of falling frequency, at the input."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from model.config import ConfigError
from model.position import POSITION, angles
from model.position.input import FreeWidth


@POSITION.register("sinusoidal")
class Sinusoidal(FreeWidth):
    """p[2i] = sin(pos / base^(2i/w)), p[2i+1] = cos of the same (Vaswani et al. 2017, 3.5)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FreeWidth.Config):
        base: float = 10_000.0

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.base <= 0:
                raise ConfigError([f"base={self.base}: must be above 0"])

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(config, d_model, config.choose(d_model))
        self.base, self.wide = config.base, config.choose(d_model)

    def vectors(self, positions_T: Tensor) -> Tensor:
        angles_TF = angles(positions_T, self.wide, self.base)
        pairs_TF2 = torch.stack((angles_TF.sin(), angles_TF.cos()), dim=-1)
        return pairs_TF2.flatten(-2)[:, : self.wide]  # an odd width ends in a sine
