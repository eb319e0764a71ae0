"""Feed-forward layers, which treat each token separately.

D: d_model, F: ratio × d_model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Checked, Registry, ranged
from model.layers import Dropout, Joint

FEEDFORWARD = Registry("feedforward")


@dataclass(frozen=True, kw_only=True)
class Widths(Checked):
    """Options of every feed-forward with a hidden layer."""

    ratio: float = ranged(4.0, above=0)
    """Hidden width over d_model."""
    bias: bool = True

    def inside(self, d_model: int) -> int:
        return max(1, round(self.ratio * d_model))


class TwoLayers(nn.Module):
    """down(activation(up(x))): widen, bend, narrow (Vaswani et al. 2017, eq. 2)."""

    Config = Widths
    activation: Callable[[Tensor], Tensor]

    def __init__(self, config: Widths, d_model: int, feedforward_dropout: float) -> None:
        super().__init__()
        width = config.inside(d_model)
        self.up = nn.Linear(d_model, width, bias=config.bias)
        self.down = nn.Linear(width, d_model, bias=config.bias)
        self.dropout = Dropout(feedforward_dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return self.down(self.dropout(self.activation(self.up(x_BTD))))


@FEEDFORWARD.register("linear")
class WithoutActivation(TwoLayers):
    """No activation: two layers that are worth one."""

    def activation(self, x_BTF: Tensor) -> Tensor:
        return x_BTF


@FEEDFORWARD.register("relu")
class ReLU(TwoLayers):
    """max(0, x)."""

    activation = staticmethod(F.relu)


@FEEDFORWARD.register("gelu")
class GELU(TwoLayers):
    """x · Φ(x), with Φ the normal distribution function (Hendrycks & Gimpel 2016)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Widths):
        approximate: Literal["none", "tanh"] = "none"
        """Exact, or by the tanh that GPT-2 uses."""

    def __init__(self, config: Config, d_model: int, feedforward_dropout: float) -> None:
        super().__init__(config, d_model, feedforward_dropout)
        self.activation = partial(F.gelu, approximate=config.approximate)


class Gated(nn.Module):
    """down(activation(gate(x)) · up(x)): one layer opens and closes the other (Shazeer 2020)."""

    Config = Widths
    activation: Callable[[Tensor], Tensor]

    def __init__(self, config: Widths, d_model: int, feedforward_dropout: float) -> None:
        super().__init__()
        width = config.inside(d_model)
        self.into = Joint(d_model, {"gate": width, "up": width}, config.bias)
        self.down = nn.Linear(width, d_model, bias=config.bias)
        self.dropout = Dropout(feedforward_dropout)

    def forward(self, x_BTD: Tensor) -> Tensor:
        gate_BTF, up_BTF = self.into(x_BTD)
        return self.down(self.dropout(self.activation(gate_BTF) * up_BTF))


@FEEDFORWARD.register("swiglu")
class SwiGLU(Gated):
    """Gated by x · sigmoid(x)."""

    activation = staticmethod(F.silu)


@FEEDFORWARD.register("geglu")
class GEGLU(Gated):
    """Gated by x · Φ(x)."""

    activation = staticmethod(F.gelu)


@FEEDFORWARD.register("none")
class NoFeedForward(nn.Module):
    """No feed-forward: the block leaves this sublayer out."""
