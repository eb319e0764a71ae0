"""Norms, and how the sublayers of a block join the residual stream.

A residual component owns the norms of its block and says how many it needs for each sublayer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor, nn

from model.config import Checked, Registry, ranged
from model.layers import Dropout

NORM = Registry("norm")


@dataclass(frozen=True, kw_only=True)
class Affine(Checked):
    """Options of every norm."""

    eps: float = ranged(1e-5, above=0)
    affine: bool = True
    """Whether there is a learned gain."""


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
        eps: float = ranged(1e-6, above=0)

    roles: ClassVar = {"weight": 1.0}

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(d_model, config.eps, elementwise_affine=config.affine)


@NORM.register("none")
class NoNorm(nn.Module):
    """The stream as it comes."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return x_BTD


RESIDUAL = Registry("residual")

Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """Wraps the sublayers of one block."""

    ends_in_norm = False  # whether the stack is to end in a norm of its own

    def __init__(self, make_norm: Callable[[], nn.Module], sublayers: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(make_norm() for _ in range(self.count(sublayers)))
        self.dropout = Dropout(dropout)

    def count(self, sublayers: int) -> int:
        """Norms in a block of so many sublayers."""
        return sublayers


@RESIDUAL.register("pre")
class PreNorm(Residual):
    """x + f(norm(x)): the stream itself is never normalised (Xiong et al. 2020)."""

    ends_in_norm = True

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            x_BTD = x_BTD + self.dropout(sublayer(norm(x_BTD)))
        return x_BTD


@RESIDUAL.register("post")
class PostNorm(Residual):
    """norm(x + f(x)): the original placement (Vaswani et al. 2017)."""

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            x_BTD = norm(x_BTD + self.dropout(sublayer(x_BTD)))
        return x_BTD


@RESIDUAL.register("sandwich")
class Sandwich(Residual):
    """x + norm(f(norm(x))): what is added is normalised too (Ding et al. 2021)."""

    ends_in_norm = True

    def count(self, sublayers: int) -> int:
        return 2 * sublayers

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for index, sublayer in enumerate(sublayers):
            before, after = self.norms[2 * index], self.norms[2 * index + 1]
            x_BTD = x_BTD + self.dropout(after(sublayer(before(x_BTD))))
        return x_BTD


@RESIDUAL.register("parallel")
class Parallel(Residual):
    """x + f₁(norm(x)) + f₂(norm(x)) …: sublayers side by side (Wang & Komatsuzaki 2021)."""

    ends_in_norm = True

    def count(self, sublayers: int) -> int:
        return 1

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        normed_BTD = self.norms[0](x_BTD)
        for sublayer in sublayers:
            x_BTD = x_BTD + self.dropout(sublayer(normed_BTD))
        return x_BTD


@RESIDUAL.register("none")
class NoResidual(Residual):
    """f(norm(x)): nothing is carried past a sublayer."""

    ends_in_norm = True

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        for norm, sublayer in zip(self.norms, sublayers, strict=True):
            x_BTD = self.dropout(sublayer(norm(x_BTD)))
        return x_BTD
