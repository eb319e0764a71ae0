"""Keys that know how far they are from the query.

B: sequences, H: heads, T: queries, S: keys, K: width of a head, R: distances from −clip to clip.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.config import ConfigError
from model.position import POSITION, Position


@POSITION.register("shaw")
class Shaw(Position):
    """q_i · (k_j + a[clip(j − i)]), a trained vector for each distance (Shaw et al. 2018, eq. 4).

    Keys only: the authors found that values need none. All heads of a layer have the same vectors.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        clip: int = 16
        """From here on all distances are one."""
        shared: bool = False
        """Whether all layers of a stack have the same vectors; the paper's have their own."""

        def __post_init__(self) -> None:
            if self.clip < 1:
                raise ConfigError([f"clip={self.clip}: must be at least 1"])

    def __init__(self, config: Config, d_head: int) -> None:
        super().__init__()
        self.shared, self.clip = config.shared, config.clip
        self.table = nn.Embedding(2 * config.clip + 1, d_head)

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        """Every query meets every distance once; then each key takes the number of its own."""
        by_distance_BHTR = q_BHTK @ self.table.weight.T
        distances_TS = (keys_S - queries_T[:, None]).clamp(-self.clip, self.clip) + self.clip
        return by_distance_BHTR.gather(-1, distances_TS.expand(*q_BHTK.shape[:2], -1, -1))
