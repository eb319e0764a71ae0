"""From token numbers to the vectors that enter a stack.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from torch import Tensor, nn

from model.position import Position


class Embedding(nn.Module):
    """Looked up, scaled, told their place, dropped out."""

    def __init__(
        self, size: int, d_model: int, position: Position, scale: float, dropout: float
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, d_model)
        self.position = position
        self.scale = scale
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BT: Tensor, positions_T: Tensor) -> Tensor:
        x_BTD = self.tokens(tokens_BT)
        if self.scale != 1.0:
            x_BTD = x_BTD * self.scale
        return self.dropout(self.position.embed(x_BTD, positions_T))
