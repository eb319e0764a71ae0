"""Where positions exchange information: the mixers, and what every mixer is told.

B: sequences, T: positions given now, S: positions attended to, D: d_model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor, nn

from model.family import Family

MIXER = Family("mixer")

MixerState: TypeAlias = tuple[Tensor, ...]  # every tensor has the sequences in its first dimension


@dataclass(frozen=True)
class Context:
    """What a mixer must know beside its input."""

    positions: Tensor  # T: consecutive, the first is `start`
    start: int = 0  # positions already in the state
    causal: bool = False
    lengths: Tensor | None = None  # B: real tokens of the input; None: all are real
    memory: Tensor | None = None  # B S D: what cross-attention reads
    memory_lengths: Tensor | None = None  # B

    @cached_property
    def seen(self) -> Tensor:
        """S: positions of the state and of the input."""
        if self.start == 0:
            return self.positions
        return torch.arange(self.start + len(self.positions), device=self.positions.device)

    @cached_property
    def real(self) -> Tensor | None:
        """B T: which tokens of the input are not padding."""
        if self.lengths is None:
            return None
        return self.positions < self.lengths[:, None]

    @cached_property
    def memory_real(self) -> Tensor | None:
        """B S: which positions of the memory are not padding."""
        if self.memory_lengths is None or self.memory is None:
            return None
        slots = torch.arange(self.memory.shape[1], device=self.memory.device)
        return slots < self.memory_lengths[:, None]


class Mixer(nn.Module):
    """One way for the tokens of a sequence to look at each other."""

    crosses = False  # whether it can read a memory instead of its own input

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        """The state before the first token, for at most `capacity` tokens."""
        raise NotImplementedError

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        """The mixed tokens; with a state, what came before counts too and a new state follows."""
        raise NotImplementedError
