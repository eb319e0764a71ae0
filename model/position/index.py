"""The index itself, as one number at the input."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from model.position import POSITION, precise
from model.position.input import InputScheme


@POSITION.register("index")
class Index(InputScheme):
    """pos / max_len, or pos itself, in one dimension: the first attempt of the lectures.

    Added, it goes to the first dimension alone: a layer norm takes away what all of them share.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(InputScheme.Config):
        scale: bool = True
        """Whether the index is divided by max_len, so that it lies in 0 to 1."""

    def __init__(self, config: Config, d_model: int, max_len: int) -> None:
        super().__init__(config, d_model, 1)
        self.unit = max_len if config.scale else 1

    def vectors(self, positions_T: Tensor) -> Tensor:
        return precise(positions_T)[:, None] / self.unit
