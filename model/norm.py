"""Norms: what keeps the size of the residual stream in hand.

D: d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from model.family import ConfigError, Family

NORM = Family("norm")


@NORM.register("layer")
class LayerNorm(nn.LayerNorm):
    """(x − mean) / √(variance + eps) · gain + bias over each token (Ba et al. 2016)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        eps: float = 1e-5

        def __post_init__(self) -> None:
            if self.eps <= 0:
                raise ConfigError([f"eps={self.eps}: must be positive"])

    roles: ClassVar = {"weight": 1.0, "bias": 0.0}

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(d_model, eps=config.eps)
