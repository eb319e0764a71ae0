"""What attention scores are multiplied by before the softmax.

B: sequences, H: heads, T: queries, K: width of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from model.config import ConfigError
from model.registry import Registry

SCALE = Registry("scale")


class Scale(nn.Module):
    """Queries in, queries and a plain factor out: a fixed scale costs nothing."""

    factor: float = 1.0

    def scaled(self, q_BHTK: Tensor) -> tuple[Tensor, float]:
        return q_BHTK, self.factor


@SCALE.register("sqrt_d_head")
class SqrtHead(Scale):
    """1/√d_head: random scores keep unit variance at any width (Vaswani et al. 2017, 3.2.1)."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.factor = d_head**-0.5


@SCALE.register("sqrt_d_model")
class SqrtModel(Scale):
    """1/√d_model, as some lectures write it."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.factor = d_model**-0.5


@SCALE.register("linear")
class LinearHead(Scale):
    """1/d_head: right where queries and keys are aligned rather than random (Yang et al. 2021)."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.factor = 1 / d_head


@SCALE.register("none")
class NoScale(Scale):
    """1: the softmax meets the raw dot products."""


@SCALE.register("learned")
class LearnedScale(Scale):
    """e^s with one s for each head (Henry et al. 2020)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        start: float | None = None
        """The scale before training. Left out: 1/√d_head."""

        def __post_init__(self) -> None:
            if self.start is not None and self.start <= 0:
                raise ConfigError([f"start={self.start}: must be positive"])

    def __init__(self, config: Config, n_heads: int, d_head: int) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.empty(n_heads))
        self.roles = {"log": math.log(config.start or d_head**-0.5)}

    def scaled(self, q_BHTK: Tensor) -> tuple[Tensor, float]:
        return q_BHTK * self.log.exp()[:, None, None], 1.0
