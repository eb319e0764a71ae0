"""Recurrent layers as mixers: a token learns of the others through a state that is handed on.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from model.config import ConfigError
from model.mixer import MIXER, Context, Mixer, MixerState
from model.recurrent import RecurrentLayer, cell


class Recurrence(Mixer):
    """Ahead alone where the model is causal; otherwise ahead and back, half the width each.

    Back means from each sequence's last real token. The hidden vectors are the answer: there is no
    projection after them.
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
        zero = self.ahead.start(x_BTD.new_empty(len(x_BTD), self.ahead.hidden_size))
        if self.back is None:
            y_BTD, after = self.ahead.run(x_BTD, state or zero)
            return y_BTD, None if state is None else after
        ahead, _ = self.ahead.run(x_BTD, zero)
        back, _ = self.back.run(cell.reverse(x_BTD, context.lengths), zero)
        return torch.cat((ahead, cell.reverse(back, context.lengths)), dim=-1), None


@MIXER.register("rnn")
class RNNMixer(Recurrence):
    """h = tanh(W x + U h'): everything passes through every step (Elman 1990)."""

    Config = cell.Form

    def __init__(self, config: cell.Form, d_model: int, causal: bool) -> None:
        super().__init__(lambda width: cell.RNN(config, d_model, width), d_model, causal)


@MIXER.register("gru")
class GRUMixer(Recurrence):
    """Gates decide what of the state stays (Cho et al. 2014)."""

    Config = cell.Form

    def __init__(self, config: cell.Form, d_model: int, causal: bool) -> None:
        super().__init__(lambda width: cell.GRU(config, d_model, width), d_model, causal)


@MIXER.register("lstm")
class LSTMMixer(Recurrence):
    """Gates around a cell that nothing else touches (Hochreiter & Schmidhuber 1997)."""

    Config = cell.LSTM.Config

    def __init__(self, config: cell.LSTM.Config, d_model: int, causal: bool) -> None:
        super().__init__(lambda width: cell.LSTM(config, d_model, width), d_model, causal)
