"""Recurrent layers: library kernels over a whole sequence, sequences first.

B: sequences, T: positions, D: input width, H: hidden width.
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from model.recurrent import CELL


@CELL.register("lstm")
class LSTM(nn.LSTM):
    """Gates decide what a cell forgets, takes in and shows (Hochreiter & Schmidhuber 1997).

    The library keeps two biases; one would do, so the second stays zero at the start.
    """

    gates: ClassVar = ("input", "forget", "cell", "output")
    roles: ClassVar = {
        "weight_ih_l0": "weight",
        "weight_hh_l0": "weight",
        "bias_ih_l0": 0.0,
        "bias_hh_l0": 0.0,
    }

    def __init__(self, d_in: int, d_hidden: int) -> None:
        super().__init__(d_in, d_hidden, batch_first=True)
        rows = [(gate, d_hidden) for gate in self.gates]
        self.splits = dict.fromkeys(self.roles, rows)

    def start(self, like_BH: Tensor) -> tuple[Tensor, ...]:
        """Zeros: (hidden, cell), B H each."""
        return like_BH.new_zeros(like_BH.shape), like_BH.new_zeros(like_BH.shape)

    def run(self, x_BTD: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...]]:
        """All hidden vectors, and the state after the last position."""
        hidden, cell = (part[None].contiguous() for part in state)
        y_BTH, (hidden, cell) = self(x_BTD, (hidden, cell))
        return y_BTH, (hidden[0], cell[0])
