"""A contract that cannot fail proves nothing: six have a part that must fail them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from contract_checks import (
    Check,
    ignores_padding,
    never_looks_ahead,
    shares_its_first_values,
    stays_in_double_precision,
    steps_on_with_chosen_sequences,
    treats_each_sequence_alone,
)
from contract_subjects import temporary
from torch import Tensor

from model.family import Family
from model.initialise import INITIAL, Normal
from model.mixer import MIXER, Context, MixerState
from model.mixer.attention import Attention
from model.norm import NORM, LayerNorm

BROKEN: list[Any] = []


def breaks(check: Check, family: Family, sentence: str) -> Any:
    """Enter a part as one that must fail `check` with these words."""

    def enter(part: Any) -> Any:
        BROKEN.append(pytest.param(check, family, part, sentence, id=part.__name__))
        return part

    return enter


@breaks(never_looks_ahead, MIXER, "a later token changed an earlier answer")
class PeeksAhead(Attention):
    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        return super().forward(x_BTD, replace(context, causal=False), state)


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


@breaks(shares_its_first_values, INITIAL, "two variants start apart")
class DrawsFromOneStream(Normal):
    """One more parameter, and all that follow get other values."""

    def __init__(self, config: Normal.Config) -> None:
        super().__init__(config)
        self.stream = torch.Generator().manual_seed(0)

    def weight(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randn(shape, generator=self.stream)

    embedding = weight


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


@breaks(stays_in_double_precision, NORM, "leaves double precision")
class NormalisesInSinglePrecision(LayerNorm):
    def forward(self, x_BTD: Tensor) -> Tensor:
        scale = x_BTD.float().square().mean(-1, keepdim=True).rsqrt()
        return super().forward(x_BTD * scale.to(x_BTD.dtype))


@pytest.mark.soak
@pytest.mark.parametrize(("check", "family", "part", "sentence"), BROKEN)
def test_a_broken_part_fails_its_contract(
    check: Check, family: Family, part: Any, sentence: str
) -> None:
    with temporary(family, part) as subject, pytest.raises(AssertionError, match=sentence):
        check(subject)
