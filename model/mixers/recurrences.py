"""Recurrent layers as mixers.

B: sequences, T: positions, D: d_model, H: hidden width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from model import cells
from model.cells import CellState, RecurrentLayer
from model.config import ConfigError
from model.layers import Joint
from model.mixers import MIXER, Context, Mixer, MixerState


class Recurrence(Mixer):
    """Forwards if the model is causal; otherwise both ways, half the width each.

    The way back starts at each sequence's last real token. No projection follows the hidden
    vectors.
    """

    def __init__(self, make: Callable[[int], RecurrentLayer], d_model: int, causal: bool) -> None:
        super().__init__()
        if not causal and d_model % 2:
            raise ConfigError([f"d_model={d_model}: must be even, half for each direction"])
        self.ahead = make(d_model if causal else d_model // 2)
        self.back = None if causal else make(d_model // 2)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        assert self.back is None, "a layer that reads both ways has no state to go on from"
        return self.ahead.start(like_BD)

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        assert context.causal == (self.back is None), "built for another direction"
        if self.back is None:
            y_BTD, after = self.ahead.run(x_BTD, state or self.ahead.start(x_BTD))
            return y_BTD, None if state is None else after
        both = cells.both_ways(self.ahead, self.back, x_BTD, context.lengths)
        return torch.cat(both, dim=-1), None


class OfCells(Recurrence):
    """The layers of the recurrent models."""

    layer: Callable[..., RecurrentLayer]

    def __init__(self, config: Any, d_model: int, causal: bool) -> None:
        super().__init__(lambda width: self.layer(config, d_model, width), d_model, causal)


@MIXER.register("rnn")
class RNNMixer(OfCells):
    """h = tanh(W x + U h'): the plain recurrence (Elman 1990)."""

    Config, layer = cells.Form, cells.RNN


@MIXER.register("gru")
class GRUMixer(OfCells):
    """Gates decide what of the state stays (Cho et al. 2014)."""

    Config, layer = cells.Form, cells.GRU


@MIXER.register("lstm")
class LSTMMixer(OfCells):
    """A gated cell besides the hidden state (Hochreiter & Schmidhuber 1997)."""

    Config, layer = cells.LSTM.Config, cells.LSTM


def scan(keep_BTH: Tensor, add_BTH: Tensor) -> Tensor:
    """h_t = keep_t h_{t−1} + add_t from h = 0, in ⌈log₂ T⌉ rounds (Hillis & Steele 1986).

    After each round a position covers twice as many steps: taking (k, a) and then (k', a') is
    taking (k'k, k'a + a'). Nothing is divided and no logarithm taken, so gates may close.
    """
    span = 1
    while span < add_BTH.shape[1]:
        late_BTH = keep_BTH[:, span:]
        reached_BTH = add_BTH[:, span:] + late_BTH * add_BTH[:, :-span]
        add_BTH = torch.cat((add_BTH[:, :span], reached_BTH), dim=1)
        keep_BTH = torch.cat((keep_BTH[:, :span], late_BTH * keep_BTH[:, :-span]), dim=1)
        span *= 2
    return add_BTH


class MinimalLayer(nn.Module):
    """One direction of a minGRU."""

    def __init__(self, d_in: int, d_hidden: int) -> None:
        super().__init__()
        self.hidden_size = d_hidden
        self.gates = Joint(d_in, {"update": d_hidden, "new": d_hidden}, bias=True)

    def start(self, like: Tensor) -> CellState:
        return (like.new_zeros(len(like), self.hidden_size),)

    def run(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        update_BTH, new_BTH = self.gates(x_BTD)
        keep_BTH, take_BTH = torch.sigmoid(-update_BTH), torch.sigmoid(update_BTH)
        add_BTH = take_BTH * new_BTH
        first_B1H = keep_BTH[:, :1] * state[0][:, None] + add_BTH[:, :1]
        h_BTH = scan(keep_BTH, torch.cat((first_B1H, add_BTH[:, 1:]), dim=1))
        return h_BTH, (h_BTH[:, -1],)


@MIXER.register("mingru")
class MinGRU(Recurrence):
    """h = (1 − z) h' + z (V x + b), with z = σ(W x + c) (Feng et al. 2024, 3.1).

    The plain form, from h = 0: not the one in logarithms, whose news must be positive.
    """

    def __init__(self, d_model: int, causal: bool) -> None:
        super().__init__(lambda width: MinimalLayer(d_model, width), d_model, causal)
