"""From token numbers to the vectors that enter a stack.

B: sequences, T: positions, D: d_model, W: what a position scheme takes of d_model for itself.
"""

from __future__ import annotations

from torch import Tensor, nn

from model.position import Position


class Embedding(nn.Module):
    """Looked up, scaled, told their place, normed, dropped out."""

    def __init__(
        self,
        size: int,
        d_model: int,
        position: Position,
        norm: nn.Module | None,
        scale: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size, d_model - position.width)
        self.position = position
        self.norm = norm
        self.scale = scale
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens_BT: Tensor, positions_T: Tensor) -> Tensor:
        x_BTD = self.tokens(tokens_BT)
        if self.scale != 1.0:
            x_BTD = x_BTD * self.scale
        x_BTD = self.position.embed(x_BTD, positions_T)
        if self.norm is not None:
            x_BTD = self.norm(x_BTD)
        return self.dropout(x_BTD)

    def check(self, tokens_BT: Tensor, name: str) -> None:
        """A clear word about tokens that are not there; an accelerator is not kept waiting."""
        if tokens_BT.shape[-1] == 0:
            raise ValueError(f"{name} is empty: give at least one token")
        if tokens_BT.device.type != "cpu":
            return
        low, high = (int(end) for end in tokens_BT.aminmax())
        if low < 0 or high >= self.tokens.num_embeddings:
            wrong = low if low < 0 else high
            last = self.tokens.num_embeddings - 1
            raise ValueError(f"{name} holds token {wrong}: the vocabulary has 0 to {last}")
