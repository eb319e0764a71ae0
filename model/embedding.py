"""From token numbers to the vectors that enter a stack.

B: sequences, T: positions, D: d_model, W: what a position scheme takes of d_model for itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.layers import Dropout
from model.positions import Position


class Embedding(nn.Module):
    """Token vectors, scaled, with segment and position added, normed, dropped out."""

    def __init__(
        self,
        size: int,
        d_model: int,
        position: Position,
        norm: nn.Module | None,
        scale: float,
        dropout: float,
        segments: int = 0,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, d_model - position.width)
        self.segments = nn.Embedding(segments, d_model - position.width) if segments else None
        self.position = position
        self.norm = norm
        self.scale = scale
        self.dropout = Dropout(dropout)

    def forward(
        self, tokens_BT: Tensor, positions_T: Tensor, segments_BT: Tensor | None = None
    ) -> Tensor:
        x_BTD = self.tokens(tokens_BT)
        if self.scale != 1.0:
            x_BTD = x_BTD * self.scale
        if self.segments is not None:
            table = self.segments
            x_BTD = x_BTD + (table.weight[0] if segments_BT is None else table(segments_BT))
        x_BTD = self.position.embed(x_BTD, positions_T)
        if self.norm is not None:
            x_BTD = self.norm(x_BTD)
        return self.dropout(x_BTD)

    def check(self, tokens_BT: Tensor, name: str) -> None:
        """ValueError for tokens outside of the vocabulary."""
        if tokens_BT.numel() == 0:
            raise ValueError(f"{name} is empty: give at least one token")
        _check_inside(tokens_BT, self.tokens, f"{name} holds token", "the vocabulary")

    def check_segments(self, segments_BT: Tensor) -> None:
        if self.segments is None:
            raise ValueError("the batch has segments and the model has none: set model.segments")
        _check_inside(segments_BT, self.segments, "segments holds", "the model")


def _check_inside(numbers: Tensor, table: nn.Embedding, holds: str, owner: str) -> None:
    """ValueError for a number without a row, on the CPU; elsewhere the lookup itself fails.

    Reading it would stall an accelerator and break a compiled graph.
    """
    if numbers.device.type != "cpu" or torch.compiler.is_compiling():
        return
    low, high = (int(end) for end in numbers.aminmax())
    last = table.num_embeddings - 1
    if low < 0 or high > last:
        raise ValueError(f"{holds} {low if low < 0 else high}: {owner} has 0 to {last}")
