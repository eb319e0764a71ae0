"""Position schemes at the input of a model; `relative_positions` has those of the attention.

B: sequences, T: positions given now, S: positions of keys, H: heads, D: width of token vectors,
W: width of position vectors, K: width of a head, F: pairs that turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Checked, ConfigError, Registry, ranged
from model.init import Spread

POSITION = Registry("position")


class Position(nn.Module):
    """A scheme overrides the hooks it uses, which do nothing by default.

    Positions are arguments, so that cached generation works.
    """

    width = 0  # dimensions of d_model that `embed` appends rather than adds to
    every_layer = False  # whether `embed` is called again before every block but the first
    shared = True  # whether all blocks of a stack have one instance, or each its own
    reach: int | None = None  # number of positions, if max_len limits it; None: no limit

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
    """In double precision if the device has it: float32 loses the phase of far positions."""
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
        """Whether they are added to the first dimensions of token vectors, or appended to shorter
        token vectors, so that both together have d_model dimensions."""
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
        p_TW = self.vectors(positions_T).to(x_BTD.dtype)
        if self.width:
            return torch.cat((x_BTD, p_TW.expand(*x_BTD.shape[:-1], -1)), dim=-1)
        return x_BTD + F.pad(p_TW, (0, x_BTD.shape[-1] - p_TW.shape[-1]))


class FreeWidth(InputScheme):
    """Vectors of any width: d_model where they are added, a part of it where appended."""

    @dataclass(frozen=True, kw_only=True)
    class Config(InputScheme.Config):
        width: int | None = ranged(None, least=1)
        """Width of vectors that are appended. Left out: d_model / 4."""

        def problems(self) -> list[str]:
            if self.width is None or self.join != "add":
                return super().problems()
            fix = "join=add needs all of d_model; leave width out or choose join=concat"
            return [*super().problems(), f"width={self.width}: {fix}"]

    def __init__(self, config: Config, d_model: int) -> None:
        wide = d_model if config.join == "add" else config.width or max(1, d_model // 4)
        super().__init__(config, d_model, wide)
        self.wide = wide


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
        super().__init__(config, d_model)
        self.base = config.base

    def vectors(self, positions_T: Tensor) -> Tensor:
        angles_TF = angles(positions_T, self.wide, self.base)
        pairs_TF2 = torch.stack((angles_TF.sin(), angles_TF.cos()), dim=-1)
        return pairs_TF2.flatten(-2)[:, : self.wide]  # an odd width ends in a sine


@POSITION.register("learned")
class Learned(FreeWidth):
    """A table of max_len vectors; there is no answer past its end (Gehring et al. 2017).

    With the xavier rule its numbers start at 1/√w, w the width of the vectors (root mean square);
    scaled tokens have 1 and sinusoids 1/√2: compare it with these at equal size with std=0.7071.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(FreeWidth.Config):
        std: float | None = ranged(None, above=0)
        """Standard deviation of initial values. Left out: as the init rule draws embeddings."""

    def __init__(self, config: Config, d_model: int, max_len: int) -> None:
        super().__init__(config, d_model)
        self.reach = max_len
        self.table = nn.Embedding(max_len, self.wide)
        if config.std is not None:
            vars(self.table)["roles"] = {"weight": Spread(config.std)}

    def vectors(self, positions_T: Tensor) -> Tensor:
        return self.table(positions_T)
