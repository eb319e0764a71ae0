"""Mixers, through which positions exchange information, and the context of every call.

B: sequences, T: positions given now, S: positions attended to, D: d_model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from torch import Tensor, nn

from model.batch import positions
from model.config import Registry

MIXER = Registry("mixer")

MixerState: TypeAlias = tuple[Tensor, ...]  # every tensor has the sequences in its first dimension


@dataclass(frozen=True)
class Context:
    """What a mixer needs besides its input."""

    positions: Tensor  # T: consecutive, the first is `start`
    start: int = 0  # positions already in the state
    causal: bool = False
    lengths: Tensor | None = None  # B: real tokens of the input; None: all are real
    memory: Tensor | None = None  # B S D: what cross-attention reads
    memory_lengths: Tensor | None = None  # B
    # Computed once for all layers; a cached property would break a compiled graph.
    seen: Tensor = field(init=False)  # S: positions of the state and of the input
    real: Tensor | None = field(init=False)  # B T: which tokens of the input are not padding
    memory_real: Tensor | None = field(init=False)  # B S: the same of the memory

    def __post_init__(self) -> None:
        seen = self.positions
        if self.start > 0:
            seen = positions(self.start + len(seen), seen)
        object.__setattr__(self, "seen", seen)
        object.__setattr__(self, "real", _before(self.positions, self.lengths))
        slots = None if self.memory is None else positions(self.memory.shape[1], self.memory)
        object.__setattr__(self, "memory_real", _before(slots, self.memory_lengths))


def _before(slots: Tensor | None, lengths_B: Tensor | None) -> Tensor | None:
    """B S: which slots are not padding; None where all are real."""
    return None if slots is None or lengths_B is None else slots < lengths_B[:, None]


class Mixer(nn.Module):
    """A sublayer through which the tokens of a sequence exchange information."""

    crosses = False  # whether it can read a memory instead of its own input

    @property
    def hides(self) -> bool:
        """Whether in a causal context no token depends on later ones, so states can be kept."""
        return True

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        """The state before the first token, for at most `capacity` tokens."""
        raise NotImplementedError

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        """The mixed tokens; with a state, earlier tokens count too, and the new state follows."""
        raise NotImplementedError


@MIXER.register("none")
class NoMixer(Mixer):
    """No mixer: the block leaves this sublayer out.

    A decoder with a source still reads it by cross-attention.
    """
