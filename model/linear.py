"""Projections that share a matrix product and keep their names."""

from __future__ import annotations

from torch import Tensor, nn


class Joint(nn.Linear):
    """Several projections of one input in one matrix product, each drawn under its own name."""

    def __init__(self, d_in: int, widths: dict[str, int], bias: bool) -> None:
        super().__init__(d_in, sum(widths.values()), bias=bias)
        self.widths = list(widths.values())
        rows = list(widths.items())
        self.splits = {"weight": rows, "bias": rows}

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(x).split_with_sizes(self.widths, dim=-1)
