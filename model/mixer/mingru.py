"""A recurrence whose gates do not look at the state, so that all steps can be taken at once.

B: sequences, T: positions, D: input width, H: hidden width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from model.linear import Joint
from model.mixer import MIXER
from model.mixer.recurrent import Recurrence
from model.recurrent import CellState


def scan(keep_BTH: Tensor, add_BTH: Tensor) -> Tensor:
    """h_t = keep_t h_{t−1} + add_t from h = 0, in ⌈log₂ T⌉ rounds (Hillis & Steele 1986).

    After each round a position stands for twice as many steps: taking (k, a) and then (k', a') is
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

    def start(self, like_BH: Tensor) -> CellState:
        return (torch.zeros_like(like_BH),)

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
