"""Recurrent cells: a layer that reads a sequence one position after the other.

B: sequences, T: positions, D: width of what is read, H: hidden width, G: all gates side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import positions
from model.config import Registry
from model.init import Role

CELL = Registry("cell")

CellState: TypeAlias = tuple[Tensor, ...]  # what a cell keeps, B H each; the hidden vector is first


class RecurrentLayer(Protocol):
    """The interface of a recurrent layer."""

    hidden_size: int

    def start(self, like: Tensor) -> CellState:
        """Zeros for as many sequences as `like` has."""

    def run(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """All hidden vectors, and the state after the last position."""


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

    def start(self, like: Tensor) -> CellState:
        return tuple(like.new_zeros(len(like), self.hidden_size) for _ in range(self.kept))

    def run(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        if self.in_steps:
            return self.run_steps(x_BTD, state)
        given = tuple(each[None].contiguous() for each in state)
        y_BTH, after = self(x_BTD, given if self.kept > 1 else given[0])
        return y_BTH, tuple(each[0] for each in (after if self.kept > 1 else (after,)))

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
    """h = (1 − z) n + z h': z decides what stays, and n is the new content (Cho et al. 2014).

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
        """Initial sum of the forget gate's biases; 1 lets it remember (Jozefowicz et al. 2015)."""

    gates: ClassVar = ("input", "forget", "cell", "output")
    kept: ClassVar = 2

    def __init__(self, config: Config, d_in: int, d_hidden: int) -> None:
        super().__init__(config, d_in, d_hidden)
        self.roles["forget.bias_ih_l0"] = config.forget_bias

    def step(self, input_BG: Tensor, recalled_BG: Tensor, state: CellState) -> CellState:
        take, forget, new, show = (input_BG + recalled_BG).chunk(4, dim=-1)
        cell = torch.sigmoid(forget) * state[1] + torch.sigmoid(take) * torch.tanh(new)
        return torch.sigmoid(show) * torch.tanh(cell), cell


def reverse(x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Each sequence backwards, its padding left where it is."""
    if lengths_B is None:
        return x_BTD.flip(1)
    at_T = positions(x_BTD.shape[1], x_BTD)
    from_BT = torch.where(at_T < lengths_B[:, None], lengths_B[:, None] - 1 - at_T, at_T)
    return x_BTD.gather(1, from_BT[..., None].expand_as(x_BTD))


def both_ways(
    ahead: RecurrentLayer, back: RecurrentLayer, x_BTD: Tensor, lengths_B: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Hidden vectors forwards from the first token, and backwards from the last real one.

    Reversing within the real length never reads padding first; the library's packed sequences do
    the same at twice the time on a CPU.
    """
    ahead_BTH, _ = ahead.run(x_BTD, ahead.start(x_BTD))
    back_BTH, _ = back.run(reverse(x_BTD, lengths_B), back.start(x_BTD))
    return ahead_BTH, reverse(back_BTH, lengths_B)
