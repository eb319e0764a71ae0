"""Scores that fall with distance.

H: heads, T: positions of queries, S: positions of keys.
"""

from __future__ import annotations

from torch import Tensor

from model.constant import Constant
from model.position import POSITION, Position


@POSITION.register("alibi")
class Alibi(Position):
    """−slope · |i − j| on the scores, one fixed slope for each head (Press et al. 2022)."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        # Kept as their logarithms, which every precision holds exactly.
        self.exponents_H = Constant(exponents(n_heads))

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        distances_TS = (queries_T[:, None] - keys_S).abs()
        slopes_H = 2.0 ** -self.exponents_H(queries_T.device)
        return -slopes_H[:, None, None] * distances_TS


def exponents(n_heads: int) -> list[float]:
    """−log₂ of the slopes: 8/n, 16/n … 8 where n is a power of two.

    Else those of the next smaller power n, then every other one of 2n, as the authors' code has it.
    """
    n = 1 << (n_heads.bit_length() - 1)
    between = [8 / (2 * n) * step for step in range(1, 2 * n, 2)]
    return [8 / n * step for step in range(1, n + 1)] + between[: n_heads - n]
