"""Position schemes: how a model learns the position of a token. Each hook does nothing by default.

B: sequences, T: positions given now, S: positions of keys, H: heads, D: width of token vectors,
W: width of position vectors, K: width of a head, F: pairs that turn, R: distances from each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Checked, ConfigError, Registry, ranged
from model.init import Spread

POSITION = Registry("position")


class Position(nn.Module):
    """A scheme overrides the hooks it uses; positions are arguments, so a cache can go on."""

    width = 0  # dimensions of d_model that `embed` appends rather than adds to
    every_layer = False  # whether `embed` is called again before every block but the first
    shared = True  # whether all blocks of a stack have one instance, or each its own
    reach: int | None = None  # positions it knows, where max_len sets an end; None: any number

    def check(self, end: int) -> None:
        """ValueError where more positions are needed than the scheme has."""
        if self.reach is not None and end > self.reach:
            raise ValueError(
                f"{type(self).__name__.lower()} positions end at max_len={self.reach}, "
                f"asked for {end}: the model needs max_len={end}"
            )

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        """At the input: add positions to the vectors of tokens."""
        return x_BTD

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        """Before the scores: queries and keys."""
        return q_BHTK, k_BHTK

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """H T S, added to the scores; None adds nothing."""
        return None

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor | None:
        """B H T S, added to the scores before they are scaled; None adds nothing."""
        return None


def precise(positions_T: Tensor) -> Tensor:
    """As double precision, where the device has it: float32 loses the phase of far positions."""
    return positions_T.to(torch.float32 if positions_T.device.type == "mps" else torch.float64)


def angles(positions_T: Tensor, width: int, base: float) -> Tensor:
    """T W/2: pos / base^(2i/width), one for every two dimensions (Vaswani et al. 2017, 3.5)."""
    steps = precise(torch.arange(0, width, 2, device=positions_T.device))
    return positions_T[:, None] * base ** (-steps / width)


@POSITION.register("none")
class NoPosition(Position):
    """No positions; only a causal mask gives order away."""


class InputScheme(Position):
    """A subclass says what the vectors are; here they are added to the tokens' or appended."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        join: Literal["add", "concat"] = "add"
        """Added to the token vectors (a narrow vector to their first dimensions), or appended to
        shorter ones, so that both together have d_model dimensions."""
        every_layer: bool = False
        """Whether they are added again before every block after the first."""

        def problems(self) -> list[str]:
            if not self.every_layer or self.join == "add":
                return super().problems()
            why = f"join={self.join} leaves no room in later blocks; choose join=add"
            return [*super().problems(), f"every_layer=true: {why}"]

    def __init__(self, config: Config, d_model: int, width: int) -> None:
        super().__init__()
        appended = config.join != "add"
        room = d_model - 1 if appended else d_model  # at least one dimension is the token's own
        if not 1 <= width <= room:
            raise ConfigError(
                [f"join={config.join}: position vectors of width={width} do not fit "
                 f"d_model={d_model}, which has room for 1 to {room}"]
            )  # fmt: skip
        self.width = width if appended else 0
        self.every_layer = config.every_layer

    def vectors(self, positions_T: Tensor) -> Tensor:
        """T W."""
        raise NotImplementedError

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        if positions_T.device.type == "cpu" and not torch.compiler.is_compiling():
            # Elsewhere the stack's own check must do.
            self.check(int(positions_T.max()) + 1)
        p_TW = self.vectors(positions_T).to(x_BTD.dtype)
        if self.width:
            return torch.cat((x_BTD, p_TW.expand(*x_BTD.shape[:-1], -1)), dim=-1)
        return x_BTD + F.pad(p_TW, (0, x_BTD.shape[-1] - p_TW.shape[-1]))


class FreeWidth(InputScheme):
    """Vectors of any width: d_model where they are added, a part of it where appended."""

    @dataclass(frozen=True, kw_only=True)
    class Config(InputScheme.Config):
        width: int | None = None
        """Of vectors that are appended. Left out: d_model / 4."""

        def problems(self) -> list[str]:
            if self.width is None or self.join != "add":
                return super().problems()
            fix = "join=add needs all of d_model; leave width out or choose join=concat"
            return [*super().problems(), f"width={self.width}: {fix}"]

        def choose(self, d_model: int) -> int:
            if self.join == "add":
                return d_model
            return max(1, d_model // 4) if self.width is None else self.width


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


@POSITION.register("binary")
class Binary(InputScheme):
    """⌈log₂ max_len⌉ digits of 0 or 1, the highest first; there are none for more positions."""

    def __init__(self, config: InputScheme.Config, d_model: int, max_len: int) -> None:
        digits = max(1, (max_len - 1).bit_length())
        super().__init__(config, d_model, digits)
        self.digits, self.reach = digits, max_len

    def vectors(self, positions_T: Tensor) -> Tensor:
        powers = torch.arange(self.digits - 1, -1, -1, device=positions_T.device)
        return (positions_T[:, None] >> powers) & 1


@POSITION.register("sinusoidal")
class Sinusoidal(FreeWidth):
    """p[2i] = sin(pos / base^(2i/w)), p[2i+1] = cos of the same (Vaswani et al. 2017, 3.5)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(FreeWidth.Config):
        base: float = ranged(10_000.0, above=0)

    def __init__(self, config: Config, d_model: int) -> None:
        super().__init__(config, d_model, config.choose(d_model))
        self.base, self.wide = config.base, config.choose(d_model)

    def vectors(self, positions_T: Tensor) -> Tensor:
        angles_TF = angles(positions_T, self.wide, self.base)
        pairs_TF2 = torch.stack((angles_TF.sin(), angles_TF.cos()), dim=-1)
        return pairs_TF2.flatten(-2)[:, : self.wide]  # an odd width ends in a sine


@POSITION.register("learned")
class Learned(FreeWidth):
    """A table of max_len vectors; there is no answer past its end (Gehring et al. 2017).

    How large a number is at the start (root mean square; d: d_model, w: width of the vectors, which
    is d where they are added), compared with what it is joined to:

    | initial       | tokens    | tokens with embedding_scale | sinusoids | learned, std left out |
    |---------------|-----------|-----------------------------|-----------|-----------------------|
    | xavier        | 1/√d      | 1                           | 1/√2      | 1/√w                  |
    | normal        | its std   | its std · √d                | 1/√2      | its std               |
    | unit_variance | 1         | √d                          | 1/√2      | 1                     |

    So with xavier and scaled tokens a learned position starts √(d/2) times smaller than a sinusoid:
    compare the two at equal size with std=0.7071.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(FreeWidth.Config):
        std: float | None = ranged(None, above=0)
        """Standard deviation of the first values. Left out: as the initial rule draws embeddings,
        which embedding_scale does not multiply here."""

    def __init__(self, config: Config, d_model: int, max_len: int) -> None:
        super().__init__(config, d_model, config.choose(d_model))
        self.reach = max_len
        self.table = nn.Embedding(max_len, config.choose(d_model))
        if config.std is not None:
            vars(self.table)["roles"] = {"weight": Spread(config.std)}

    def vectors(self, positions_T: Tensor) -> Tensor:
        return self.table(positions_T)


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
            whole = config.fraction == 1
            field = f"d_head={d_head}" if whole else f"fraction={config.fraction}"
            raise ConfigError(
                [f"{field}: rotary turns pairs, and {turned:g} of d_head={d_head} dimensions are "
                 "not pairs; choose an even number"]
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
    """−slope · |i − j| on the scores, one fixed slope for each head (Press et al. 2022)."""

    exponents_H: Tensor

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        # Kept as their logarithms, which every precision holds exactly.
        self.register_buffer("exponents_H", torch.tensor(exponents(n_heads)), persistent=False)

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        distances_TS = (queries_T[:, None] - keys_S).abs()
        slopes_H = 2.0**-self.exponents_H
        return -slopes_H[:, None, None] * distances_TS


def exponents(n_heads: int) -> list[float]:
    """−log₂ of the slopes: 8/n, 16/n … 8 where n is a power of two.

    Else those of the next smaller power n, then every other one of 2n, as the authors' code has it.
    """
    n = 1 << (n_heads.bit_length() - 1)
    between = [8 / (2 * n) * step for step in range(1, 2 * n, 2)]
    return [8 / n * step for step in range(1, n + 1)] + between[: n_heads - n]


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
