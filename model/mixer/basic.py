"""Attention with nothing learned in it."""

from __future__ import annotations

from torch import Tensor

from model.attention import Path, Similarity
from model.config import ConfigError
from model.mixer import MIXER
from model.mixer.attention import Heads
from model.position import Position
from model.scale import Scale


@MIXER.register("basic")
class Basic(Heads):
    """Queries, keys and values are the tokens themselves: softmax(x xᵀ · scale) x in each head.

    The basic self-attention of STAT453 and CS224U, which take one head and scale=none.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_head: int,
        position: Position,
        scale: Scale,
        similarity: Similarity,
        path: Path,
        attention_dropout: float,
        cross: bool,
    ) -> None:
        if n_heads * d_head != d_model:
            raise ConfigError(
                [f"d_head={d_head}: without projections the heads must fill the width: "
                 f"n_heads={n_heads} × d_head must be d_model={d_model}"]
            )  # fmt: skip
        parts = (position, scale, similarity, path)
        super().__init__(n_heads, 1, d_head, *parts, attention_dropout, cross)

    def ask(self, x_BTD: Tensor) -> Tensor:
        return self.heads(x_BTD)

    def offer(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        x_BHSK = self.heads(memory_BSD)
        return x_BHSK, x_BHSK

    def own(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_BHTK = self.heads(x_BTD)
        return x_BHTK, x_BHTK, x_BHTK

    def join(self, y_BTD: Tensor) -> Tensor:
        return y_BTD
