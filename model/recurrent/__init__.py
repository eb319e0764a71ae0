"""The recurrent baselines, as they were before the transformer."""

from __future__ import annotations

from typing import Protocol, TypeAlias

from torch import Tensor

from model.family import Family

CELL = Family("cell")
SCORE = Family("score")

CellState: TypeAlias = tuple[Tensor, ...]  # what a cell keeps, B H each; the hidden vector is first


class RecurrentLayer(Protocol):
    """One recurrent layer, whatever its gates."""

    hidden_size: int

    def start(self, like_BH: Tensor) -> CellState: ...

    def run(self, x_BTD: Tensor, state: CellState) -> tuple[Tensor, CellState]: ...
