"""How well a decoder's state h fits a position m of the source.

B: sequences, T: target positions, S: source positions, H: hidden width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.recurrent import SCORE


class MemoryScore(nn.Module):
    """Scores in two steps, so that what needs the source alone is done once for each source."""

    reads = True  # whether the decoder reads the source at all

    def keys(self, memory_BSH: Tensor) -> Tensor:
        """The positions as they are scored."""
        return memory_BSH

    def forward(self, h_BTH: Tensor, keys_BSH: Tensor) -> Tensor:
        """B T S: the higher, the more is read."""
        raise NotImplementedError


@SCORE.register("none")
class NoReading(MemoryScore):
    """One vector a layer stands between source and target (Sutskever et al., Cho et al. 2014)."""

    reads = False


@SCORE.register("dot")
class Dot(MemoryScore):
    """hᵀ m (Luong et al. 2015)."""

    def forward(self, h_BTH: Tensor, keys_BSH: Tensor) -> Tensor:
        return h_BTH @ keys_BSH.transpose(1, 2)


@SCORE.register("bilinear")
class Bilinear(Dot):
    """hᵀ W m (Luong et al. 2015, "general")."""

    def __init__(self, d_hidden: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_hidden, d_hidden, bias=False)

    def keys(self, memory_BSH: Tensor) -> Tensor:
        return self.project(memory_BSH)


@SCORE.register("mlp")
class MLP(MemoryScore):
    """vᵀ tanh(W h + U m) (Bahdanau et al. 2015)."""

    def __init__(self, d_hidden: int) -> None:
        super().__init__()
        self.state = nn.Linear(d_hidden, d_hidden, bias=False)
        self.memory = nn.Linear(d_hidden, d_hidden, bias=False)
        self.weigh = nn.Linear(d_hidden, 1, bias=False)

    def keys(self, memory_BSH: Tensor) -> Tensor:
        return self.memory(memory_BSH)

    def forward(self, h_BTH: Tensor, keys_BSH: Tensor) -> Tensor:
        met_BTSH = torch.tanh(self.state(h_BTH)[:, :, None] + keys_BSH[:, None])
        return self.weigh(met_BTSH)[..., 0]
