"""Recurrent layers that read in one direction, as library kernels or in visible steps.

B: sequences, T: positions, D: input width, H: hidden width, G: H for each gate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import positions
from model.initialise import Role
from model.recurrent import CELL, CellState

ROLES: dict[str, Role] = {
    "weight_ih_l0": "weight",
    "weight_hh_l0": "weight",
    "bias_ih_l0": 0.0,
    "bias_hh_l0": 0.0,
}


@dataclass(frozen=True, kw_only=True)
class Form:
    """How a layer gets from one position to the next; the numbers are the same."""

    form: Literal["kernel", "steps"] = "kernel"
    """One library call for the whole sequence, or a loop with every gate in the open."""


class Layer(nn.RNNBase):
    """One layer over a whole sequence; the library keeps two biases, zero at the start."""

    Config = Form
    gates: ClassVar[tuple[str, ...]]
    kept: ClassVar[int] = 1  # tensors in the state
    weight_ih_l0: Tensor
    weight_hh_l0: Tensor
    bias_ih_l0: Tensor
    bias_hh_l0: Tensor

    def __init__(self, config: Form, d_in: int, d_hidden: int) -> None:
        super().__init__(d_in, d_hidden, batch_first=True)  # type: ignore[arg-type,call-arg]
        self.in_steps = config.form == "steps"
        self.roles: dict[str, Role] = dict(ROLES)
        self.splits = {name: [(gate, d_hidden) for gate in self.gates] for name in ROLES}

    def start(self, like_BH: Tensor) -> CellState:
        """Zeros, B H each: the hidden vector, and whatever else a layer keeps."""
        return tuple(like_BH.new_zeros(like_BH.shape) for _ in range(self.kept))

    def run(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """All hidden vectors, and the state after the last position."""
        if self.in_steps:
            return self.run_steps(x_BTD, state)
        given = tuple(part[None].contiguous() for part in state)
        y_BTH, after = self(x_BTD, given if self.kept > 1 else given[0])
        return y_BTH, tuple(part[0] for part in (after if self.kept > 1 else (after,)))

    def run_steps(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        input_BTG = F.linear(x_BTD, self.weight_ih_l0, self.bias_ih_l0)  # needs no loop
        outputs = []
        for input_BG in input_BTG.unbind(1):
            recalled_BG = F.linear(state[0], self.weight_hh_l0, self.bias_hh_l0)
            state = self.step(input_BG, recalled_BG, state)
            outputs.append(state[0])
        return torch.stack(outputs, dim=1), state

    def step(self, input_BG: Tensor, recalled_BG: Tensor, state: CellState) -> CellState:
        """The state one position on, from W x + b, U h + c and the state before."""
        raise NotImplementedError


@CELL.register("rnn")
class RNN(Layer, nn.RNN):
    """h = tanh(W x + b + U h' + c), with h' the hidden vector before (Elman 1990)."""

    gates: ClassVar = ("new",)

    def step(self, input_BG: Tensor, recalled_BG: Tensor, state: CellState) -> CellState:
        return (torch.tanh(input_BG + recalled_BG),)


@CELL.register("gru")
class GRU(Layer, nn.GRU):
    """h = (1 − z) n + z h': z decides what stays, and n is the news (Cho et al. 2014).

    r and z = σ(W x + b + U h' + c), n = tanh(W x + b + r (U h' + c)), each with its own weights.
    The library resets after the product with U, not before it as the paper does.
    """

    gates: ClassVar = ("reset", "update", "new")

    def step(self, input_BG: Tensor, recalled_BG: Tensor, state: CellState) -> CellState:
        r_input, z_input, n_input = input_BG.chunk(3, dim=-1)
        r_recalled, z_recalled, n_recalled = recalled_BG.chunk(3, dim=-1)
        reset = torch.sigmoid(r_input + r_recalled)
        update = torch.sigmoid(z_input + z_recalled)
        new = torch.tanh(n_input + reset * n_recalled)
        return ((1 - update) * new + update * state[0],)


@CELL.register("lstm")
class LSTM(Layer, nn.LSTM):
    """c = f c' + i g, h = o tanh(c): a cell forgets, takes in and shows (Hochreiter et al. 1997).

    i, f and o = σ(W x + b + U h' + c), g = tanh of the same, each with its own weights. The
    forget gate is that of Gers et al. 2000.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Form):
        forget_bias: float = 0.0
        """What the forget gate's two biases sum to before training: 1 lets a cell remember from
        the start (Gers et al. 2000, Jozefowicz et al. 2015)."""

    gates: ClassVar = ("input", "forget", "cell", "output")
    kept: ClassVar = 2

    def __init__(self, config: Config, d_in: int, d_hidden: int) -> None:
        super().__init__(config, d_in, d_hidden)
        self.roles["forget.bias_ih_l0"] = config.forget_bias

    def step(self, input_BG: Tensor, recalled_BG: Tensor, state: CellState) -> CellState:
        take, forget, new, show = (input_BG + recalled_BG).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(take) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(cell), cell


def reverse(x_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Each sequence backwards, its padding left where it is."""
    if lengths_B is None:
        return x_BT.flip(1)
    at_T = positions(x_BT.shape[1], x_BT)
    from_BT = torch.where(at_T < lengths_B[:, None], lengths_B[:, None] - 1 - at_T, at_T)
    index = from_BT.reshape(from_BT.shape + (1,) * (x_BT.dim() - 2)).expand_as(x_BT)
    return x_BT.gather(1, index)
