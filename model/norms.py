"""Norms: what keeps the size of the residual stream in hand.

D: d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from model.config import ConfigError
from model.registry import Registry

NORM = Registry("norm")


@dataclass(frozen=True, kw_only=True)
class Affine:
    """Options of every norm."""

    eps: float = 1e-5
    affine: bool = True
    """Whether there is a learned gain."""

    def __post_init__(self) -> None:
        if self.eps <= 0:
            raise ConfigError([f"eps={self.eps}: must be positive"])


@NORM.register("layer")
class LayerNorm(nn.LayerNorm):
    """(x − mean) / √(variance + eps) · gain + bias over each token (Ba et al. 2016)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Affine):
        bias: bool = True
        """Whether a learned bias goes with the gain."""

    roles: ClassVar = {"weight": 1.0, "bias": 0.0}

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(d_model, config.eps, elementwise_affine=config.affine, bias=config.bias)


@NORM.register("rms")
class RMSNorm(nn.RMSNorm):
    """x / √(mean of x² + eps) · gain: no mean, no bias (Zhang & Sennrich 2019)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Affine):
        eps: float = 1e-6

    roles: ClassVar = {"weight": 1.0}

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(d_model, config.eps, elementwise_affine=config.affine)


@NORM.register("none")
class NoNorm(nn.Module):
    """The stream as it comes."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD
