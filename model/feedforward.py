"""What a block does to each token on its own.

D: d_model, F: ratio × d_model.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from model.family import ConfigError, Family

FEEDFORWARD = Family("feedforward")


class TwoLayers(nn.Module):
    """down(activation(up(x))): widen, bend, narrow (Vaswani et al. 2017, eq. 2)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        ratio: float = 4.0
        bias: bool = True

        def __post_init__(self) -> None:
            if self.ratio <= 0:
                raise ConfigError([f"ratio={self.ratio}: must be positive"])

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__()
        width = max(1, round(config.ratio * d_model))
        self.up = nn.Linear(d_model, width, bias=config.bias)
        self.down = nn.Linear(width, d_model, bias=config.bias)

    def activation(self, x_BTF: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.activation(self.up(x_BTD)))


@FEEDFORWARD.register("relu")
class ReLU(TwoLayers):
    """max(0, x)."""

    def activation(self, x_BTF: Tensor) -> Tensor:
        return F.relu(x_BTF)


@FEEDFORWARD.register("gelu")
class GELU(TwoLayers):
    """x · Φ(x), with Φ the normal distribution function (Hendrycks & Gimpel 2016)."""

    def activation(self, x_BTF: Tensor) -> Tensor:
        return F.gelu(x_BTF)
