"""How well a decoder's state fits a position of the source.

B: sequences, T: target positions, S: source positions, H: hidden width.
"""

from __future__ import annotations

from torch import Tensor, nn

from model.recurrent import SCORE


@SCORE.register("dot")
class Dot(nn.Module):
    """hᵀ m (Luong et al. 2015)."""

    def forward(self, h_BTH: Tensor, memory_BSH: Tensor) -> Tensor:
        return h_BTH @ memory_BSH.transpose(1, 2)
