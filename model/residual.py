"""How a block's sublayers join the stream, and where the norms stand.

A residual part owns the norms of its block: one for each sublayer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor, nn

from model.family import Family

RESIDUAL = Family("residual")

Sublayer = Callable[[Tensor], Tensor]


class Residual(nn.Module):
    """Wraps the sublayers of one block."""

    ends_in_norm = False  # whether the stack needs a last norm of its own

    def __init__(self, norms: Sequence[nn.Module], dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(norms)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BTD: Tensor, sublayers: Sequence[Sublayer]) -> Tensor:
        raise NotImplementedError


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
