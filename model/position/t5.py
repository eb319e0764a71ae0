"""A trained bias for each head and each bucket of distances.

H: heads, T: positions of queries, S: positions of keys, R: distances from −max_distance on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor, nn

from model.config import ConfigError
from model.constant import Constant
from model.position import POSITION, Position


@POSITION.register("t5")
class T5(Position):
    """bias[head, bucket(j − i)] on the scores; far distances share buckets (Raffel et al. 2020)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        n_buckets: int = 32
        max_distance: int = 128
        """From here on all distances are one."""
        shared: bool = True
        """Whether all layers of a stack have one table, as in T5."""

        def __post_init__(self) -> None:
            problems = []
            if self.n_buckets < 4 or self.n_buckets % 2:
                problems.append(f"n_buckets={self.n_buckets}: must be even and at least 4")
            if self.max_distance <= self.n_buckets // 2:
                problems.append(
                    f"max_distance={self.max_distance}: must be above n_buckets / 2 = "
                    f"{self.n_buckets // 2}, where buckets begin to hold more than one distance"
                )
            if problems:
                raise ConfigError(problems)

    def __init__(self, config: Config, n_heads: int, causal: bool) -> None:
        super().__init__()
        self.shared, self.far = config.shared, config.max_distance
        distances = range(-self.far, self.far + 1)
        buckets = [bucket(d, causal, config.n_buckets, config.max_distance) for d in distances]
        self.buckets_R = Constant(buckets)
        self.table = nn.Embedding(config.n_buckets, n_heads)

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        distances_TS = (keys_S - queries_T[:, None]).clamp(-self.far, self.far)
        buckets_TS = self.buckets_R(queries_T.device)[distances_TS + self.far]
        return self.table(buckets_TS).permute(2, 0, 1)


def bucket(distance: int, causal: bool, n_buckets: int, max_distance: int) -> int:
    """Of key minus query: half of a side's buckets hold one distance each, the rest grow as logs.

    A causal model has one side, the past; otherwise half of the buckets are the future's.
    """
    first = 0
    if causal:
        distance = max(-distance, 0)
    else:
        n_buckets //= 2
        first = n_buckets if distance > 0 else 0
        distance = abs(distance)
    single = n_buckets // 2
    if distance < single:
        return first + distance
    growth = math.log(distance / single) / math.log(max_distance / single)
    return first + min(single + int(growth * (n_buckets - single)), n_buckets - 1)
