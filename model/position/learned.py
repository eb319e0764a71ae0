"""One trained vector for each position, at the input."""

from __future__ import annotations

from torch import Tensor, nn

from model.position import POSITION
from model.position.input import FreeWidth


@POSITION.register("learned")
class Learned(FreeWidth):
    """A table of max_len vectors; there is no answer past its end (Gehring et al. 2017)."""

    def __init__(self, config: FreeWidth.Config, d_model: int, max_len: int) -> None:
        super().__init__(config, d_model, config.choose(d_model))
        self.reach = max_len
        self.table = nn.Embedding(max_len, config.choose(d_model))

    def vectors(self, positions_T: Tensor) -> Tensor:
        return self.table(positions_T)
