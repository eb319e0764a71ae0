"""Position schemes of the attention: they see how far apart a query and a key are.

B: sequences, T: positions given now, S: positions of keys, H: heads, K: width of a head,
W: dimensions that turn, F: pairs that turn, R: distances from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from model.config import Checked, ConfigError, ranged
from model.positions import POSITION, Position, angles


@POSITION.register("rotary")
class Rotary(Position):
    """Pair i of w dimensions turns by pos · theta^(−2i/w) (Su et al. 2021, eq. 15 and 34).

    The product of two vectors that turned by i and by j depends on i − j alone.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        theta: float = ranged(10_000.0, above=0)
        fraction: float = ranged(1.0, above=0, most=1)
        """How much of each head turns; the rest knows no position."""
        pairing: Literal["halves", "neighbours"] = "halves"
        """Which dimensions are a pair: i and i + w/2 (GPT-NeoX, Llama) or 2i and 2i + 1 (GPT-J)."""

    def __init__(self, config: Config, d_head: int) -> None:
        super().__init__()
        turned = config.fraction * d_head
        self.turned = round(turned)
        if self.turned < 2 or self.turned % 2 or abs(turned - self.turned) > 1e-6:
            raise ConfigError(
                [f"d_head={d_head}: rotary turns pairs, and fraction={config.fraction} of it is "
                 f"{turned:g} dimensions; choose an even number"]
            )  # fmt: skip
        self.theta = config.theta
        self.pair = {"halves": -2, "neighbours": -1}[config.pairing]

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        angles_TF = angles(positions_T, self.turned, self.theta)
        cos_TF, sin_TF = angles_TF.cos().to(q_BHTK.dtype), angles_TF.sin().to(q_BHTK.dtype)
        cos_TW, sin_TW = self.paired(cos_TF, cos_TF), self.paired(-sin_TF, sin_TF)
        return self.turn(q_BHTK, cos_TW, sin_TW), self.turn(k_BHTK, cos_TW, sin_TW)

    def paired(self, first: Tensor, second: Tensor) -> Tensor:
        """… W: the two of each pair, where the pairing has them."""
        return torch.stack((first, second), dim=self.pair).flatten(-2)

    def turn(self, x_BHTK: Tensor, cos_TW: Tensor, sin_TW: Tensor) -> Tensor:
        """(a, b) → (a cos − b sin, b cos + a sin); what is past W stays as it is."""
        # Copied, so that T and W run as one dimension: three times as fast on a CPU.
        x_BHTW = x_BHTK[..., : self.turned].contiguous()
        sizes = [-1, -1]
        sizes[self.pair] = 2
        a_BHTF, b_BHTF = x_BHTW.unflatten(-1, sizes).unbind(self.pair)
        turned_BHTW = x_BHTW * cos_TW + self.paired(b_BHTF, a_BHTF) * sin_TW
        if self.turned == x_BHTK.shape[-1]:
            return turned_BHTW
        return torch.cat((turned_BHTW, x_BHTK[..., self.turned :]), dim=-1)


@POSITION.register("shaw")
class Shaw(Position):
    """q_i · (k_j + a[clip(j − i)]), a trained vector for each distance (Shaw et al. 2018, eq. 4).

    Keys only: the authors found that values need none. All heads of a layer have the same vectors.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        clip: int = ranged(16, least=1)
        """From here on all distances are one."""
        shared: bool = False
        """Whether all layers of a stack have the same vectors; the paper's have their own."""

    def __init__(self, config: Config, d_head: int) -> None:
        super().__init__()
        self.shared, self.clip = config.shared, config.clip
        self.table = nn.Embedding(2 * config.clip + 1, d_head)

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        """Every query meets every distance once; then each key takes the number of its own."""
        by_distance_BHTR = q_BHTK @ self.table.weight.T
        distances_TS = (keys_S - queries_T[:, None]).clamp(-self.clip, self.clip) + self.clip
        return by_distance_BHTR.gather(-1, distances_TS.expand(*q_BHTK.shape[:2], -1, -1))


@POSITION.register("alibi")
class Alibi(Position):
    """−slope · |i − j| on the scores, one fixed slope for each head (Press et al. 2022).

    −log₂ of the slopes is 8/n, 16/n … 8 where n heads are a power of two. Else the slopes are those
    of the next smaller power n, then every other one of 2n, as the authors' code has it.
    """

    exponents_H: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        n = 1 << (n_heads.bit_length() - 1)
        exponents = [8 / n * step for step in range(1, n + 1)]
        exponents += [8 / (2 * n) * step for step in range(1, 2 * n, 2)][: n_heads - n]
        # Stored as logarithms, which are exact in every precision.
        self.register_buffer("exponents_H", torch.tensor(exponents), persistent=False)

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        distances_TS = (queries_T[:, None] - keys_S).abs()
        slopes_H = 2.0**-self.exponents_H
        return -slopes_H[:, None, None] * distances_TS


@POSITION.register("t5")
class T5(Position):
    """bias[head, bucket(j − i)] on the scores; far distances share buckets (Raffel et al. 2020)."""

    buckets_R: Tensor

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        n_buckets: int = 32
        max_distance: int = 128
        """From here on all distances are one."""
        shared: bool = True
        """Whether all layers of a stack have one table, as in T5."""

        def problems(self) -> list[str]:
            problems = super().problems()
            if self.n_buckets < 4 or self.n_buckets % 2:
                problems.append(f"n_buckets={self.n_buckets}: must be even and at least 4")
            if self.max_distance <= self.n_buckets // 2:
                problems.append(
                    f"max_distance={self.max_distance}: must be above n_buckets / 2 = "
                    f"{self.n_buckets // 2}, where buckets begin to hold more than one distance"
                )
            return problems

    def __init__(self, config: Config, n_heads: int, causal: bool) -> None:
        super().__init__()
        self.shared, self.far = config.shared, config.max_distance
        distances = range(-self.far, self.far + 1)
        buckets = [bucket(d, causal, config.n_buckets, config.max_distance) for d in distances]
        self.register_buffer("buckets_R", torch.tensor(buckets), persistent=False)
        self.table = nn.Embedding(config.n_buckets, n_heads)

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        distances_TS = (keys_S - queries_T[:, None]).clamp(-self.far, self.far)
        buckets_TS = self.buckets_R[distances_TS + self.far]
        return self.table(buckets_TS).permute(2, 0, 1)


def bucket(distance: int, causal: bool, n_buckets: int, max_distance: int) -> int:
    """The bucket of key − query: half of a side's buckets hold one distance, the rest grow as logs.

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
