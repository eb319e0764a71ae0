"""How a block's sublayers join the stream, and where the norms stand.

A residual part owns the norms of its block and says how many it needs for each sublayer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from model.layers import Dropout
from model.registry import Registry

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
