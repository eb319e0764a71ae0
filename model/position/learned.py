"""One trained vector for each position, added at the input."""

from __future__ import annotations

from torch import Tensor, nn

from model.position import POSITION, Position


@POSITION.register("learned")
class Learned(Position):
    """A table of max_len vectors; there is no answer past its end (Gehring et al. 2017)."""

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Embedding(max_len, d_model)
        self.limit = max_len

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        end = len(positions_T)
        if positions_T.device.type == "cpu":  # elsewhere the answer would have to be waited for
            end = int(positions_T[-1]) + 1
        if end > self.table.num_embeddings:
            raise ValueError(
                f"learned positions end at max_len={self.table.num_embeddings}, "
                f"asked for {end}: raise max_len and train again"
            )
        return x_BTD + self.table(positions_T)
