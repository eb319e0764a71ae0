"""What attention scores are multiplied by before the softmax."""

from __future__ import annotations

from torch import Tensor, nn

from model.family import Family

SCALE = Family("scale")


class Scale(nn.Module):
    """Queries in, queries and a plain factor out: a fixed scale costs nothing."""

    factor: float = 1.0

    def forward(self, q_BHTK: Tensor) -> tuple[Tensor, float]:
        return q_BHTK, self.factor


@SCALE.register("sqrt_d_head")
class SqrtHead(Scale):
    """1/√d_head: random scores keep unit variance at any width (Vaswani et al. 2017, 3.2.1)."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.factor = d_head**-0.5
