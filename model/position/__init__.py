"""How a model learns where a token stands: schemes with sites that do nothing by default.

B: sequences, T: positions given now, S: positions of keys, H: heads, K: width of a head.
"""

from __future__ import annotations

from torch import Tensor, nn

from model.family import Family

POSITION = Family("position")


class Position(nn.Module):
    """A scheme overrides the sites it uses; positions are arguments, so a cache can go on."""

    limit: int | None = None  # positions there are; None: no end

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        """At the input: vectors of tokens, told where they stand."""
        return x_BTD

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """Before the scores: queries and keys."""
        return q_BHTK, k_BHTK

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """H T S, added to the scores; None adds nothing."""
        return None

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """B H T S, added to the scores, from the queries themselves; None adds nothing."""
        return None
