"""Parts that each break one contract, to prove that the contract can fail."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from contract_checks import (
    Check,
    gives_every_parameter_a_gradient,
    gives_finite_logits,
    holds_still_in_evaluation,
    ignores_padding,
    is_whole_when_built_on_meta,
    keeps_to_itself,
    never_looks_ahead,
    sees_order_as_declared,
    shares_its_first_values,
    starts_from_the_seed_alone,
    stays_in_double_precision,
    steps_as_it_runs,
    steps_on_with_chosen_sequences,
    survives_storage,
    treats_each_sequence_alone,
)
from torch import Tensor, nn

from model.family import Family
from model.feedforward import FEEDFORWARD, ReLU
from model.initialise import INITIAL, Normal
from model.mixer import MIXER, Context, MixerState
from model.mixer.attention import Attention
from model.norm import NORM, LayerNorm
from model.positions import POSITION, Position

BROKEN: list[tuple[Check, Family, Any, str]] = []


def breaks(check: Check, family: Family, sentence: str) -> Any:
    """Enter a part as one that must fail `check` with these words."""

    def enter(part: Any) -> Any:
        BROKEN.append((check, family, part, sentence))
        return part

    return enter


@breaks(gives_finite_logits, FEEDFORWARD, "not finite")
class Overflows(ReLU):
    def activation(self, x_BTF: Tensor) -> Tensor:
        return (x_BTF * 1e30).exp()


@breaks(gives_every_parameter_a_gradient, NORM, "no gradient reaches")
class HasAnIdleParameter(LayerNorm):
    roles: ClassVar = {**LayerNorm.roles, "idle": 1.0}

    def __init__(self, config: LayerNorm.Config, d_model: int) -> None:
        super().__init__(config, d_model)
        self.idle = nn.Parameter(torch.ones(d_model))


@breaks(gives_every_parameter_a_gradient, FEEDFORWARD, "is not finite")
class HasASharpCorner(ReLU):
    def activation(self, x_BTF: Tensor) -> Tensor:
        return (x_BTF * (x_BTF > 0)).sqrt()


@breaks(never_looks_ahead, MIXER, "a later token changed an earlier answer")
class PeeksAhead(Attention):
    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        return super().forward(x_BTD, replace(context, causal=False), state)


@breaks(ignores_padding, MIXER, "padding changed an answer")
class ReadsPadding(Attention):
    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        return super().forward(x_BTD, replace(context, lengths=None), state)


@breaks(ignores_padding, MIXER, "padding changed an answer")
class ReadsPaddedMemory(Attention):
    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        return super().forward(x_BTD, replace(context, memory_lengths=None), state)


@breaks(treats_each_sequence_alone, NORM, "depends on its batch")
class NormalisesOverTheBatch(LayerNorm):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD - x_BTD.mean(dim=0, keepdim=True))


@breaks(survives_storage, NORM, "a stored model answers differently")
class LeavesItsGainBehind(LayerNorm):
    def __init__(self, config: LayerNorm.Config, d_model: int) -> None:
        super().__init__(config, d_model)
        self.register_buffer("gain", torch.rand(d_model), persistent=False)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) * self.gain


@breaks(is_whole_when_built_on_meta, POSITION, "built on meta, a model answers differently")
class KeepsItsSlopesInABuffer(Position):
    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.linspace(-1, 1, n_heads), persistent=False)

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        return self.slopes[:, None, None] * (queries_T[:, None] - keys_S).abs()


@breaks(starts_from_the_seed_alone, INITIAL, "does not come from the seed")
class DrawsFromTheGlobalGenerator(Normal):
    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape)


@breaks(starts_from_the_seed_alone, FEEDFORWARD, "does not come from the seed")
class DrawsABufferOfItsOwn(ReLU):
    def __init__(self, config: ReLU.Config, d_model: int, feedforward_dropout: float) -> None:
        super().__init__(config, d_model, feedforward_dropout)
        self.register_buffer("mask", torch.rand(d_model))

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD * self.mask)


@breaks(starts_from_the_seed_alone, FEEDFORWARD, "one seed gives two models")
class HidesADrawnTensor(ReLU):
    def __init__(self, config: ReLU.Config, d_model: int, feedforward_dropout: float) -> None:
        super().__init__(config, d_model, feedforward_dropout)
        self.mask = torch.rand(d_model)

    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD * self.mask.to(x_BTD))


@breaks(starts_from_the_seed_alone, INITIAL, "ignores the seed")
class DrawsTheSameForEverySeed(Normal):
    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=torch.Generator().manual_seed(0))


@breaks(shares_its_first_values, INITIAL, "two variants start apart")
class DrawsFromOneStream(Normal):
    """One more parameter, and all that follow get other values."""

    def __init__(self, config: Normal.Config) -> None:
        super().__init__(config)
        self.stream = torch.Generator().manual_seed(0)

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=self.stream)

    embedding = weight


@breaks(shares_its_first_values, NORM, "two variants start apart")
class StartsAtHalf(LayerNorm):
    roles: ClassVar = {"weight": 0.5, "bias": 0.0}


@breaks(sees_order_as_declared, FEEDFORWARD, "though declared blind to it")
class CountsPositions(ReLU):
    def forward(self, x_BTD: Tensor) -> Tensor:
        return super().forward(x_BTD) * torch.arange(x_BTD.shape[1])[:, None]


@breaks(sees_order_as_declared, POSITION, "though declared to see it")
class SaysNothing(Position):
    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        return x_BTD + torch.zeros_like(positions_T, dtype=x_BTD.dtype)[:, None]


class Waves(Position):
    """sin(rate · position), added to one feature: the sound form of the broken parts below."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        rate: float = 0.5

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.rate = config.rate

    def table(self, length: int) -> Tensor:
        return (torch.arange(length, dtype=torch.float64) * self.rate).sin()

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        wave_T = self.table(int(positions_T[-1]) + 1)[positions_T].to(x_BTD.dtype)
        return torch.cat((x_BTD[..., :1] + wave_T[:, None], x_BTD[..., 1:]), dim=-1)


@breaks(keeps_to_itself, POSITION, "an earlier instance changed this one")
class KeepsTheFirstTable(Waves):
    """A cache of the class that forgets whose rate it holds."""

    tables: ClassVar[dict[int, Tensor]] = {}

    def table(self, length: int) -> Tensor:
        if length not in self.tables:
            self.tables[length] = super().table(length)
        return self.tables[length]


@breaks(keeps_to_itself, POSITION, "another instance changed this one")
class KeepsTheLastRate(Waves):
    newest: ClassVar[list[float]] = []

    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        if not hasattr(self, "met"):
            self.met = True
            self.newest.append(self.rate)
        self.rate = self.newest[-1]
        return super().embed(x_BTD, positions_T)


@breaks(steps_as_it_runs, MIXER, "give another answer than one pass")
class Forgets(Attention):
    crosses = False

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        y_BTD, _ = super().forward(x_BTD, context, None)
        return y_BTD, state


@breaks(steps_as_it_runs, POSITION, "give another answer than one pass")
class CountsFromZero(Waves):
    def embed(self, x_BTD: Tensor, positions_T: Tensor) -> Tensor:
        return super().embed(x_BTD, positions_T - positions_T[0])


@breaks(steps_on_with_chosen_sequences, MIXER, "goes on from another's state")
class KeepsItsStateInside(Attention):
    crosses = False

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        self.inside = super().start(like_BD, capacity, context)
        return (like_BD,)

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        y_BTD, _ = super().forward(x_BTD, context, None if state is None else self.inside)
        return y_BTD, state


@breaks(holds_still_in_evaluation, FEEDFORWARD, "two evaluations differ")
class AlwaysDrops(ReLU):
    def activation(self, x_BTF: Tensor) -> Tensor:
        return F.dropout(super().activation(x_BTF), 0.5)


@breaks(stays_in_double_precision, NORM, "leaves double precision")
class NormalisesInSinglePrecision(LayerNorm):
    def forward(self, x_BTD: Tensor) -> Tensor:
        scale = x_BTD.float().square().mean(-1, keepdim=True).rsqrt()
        return super().forward(x_BTD * scale.to(x_BTD.dtype))
