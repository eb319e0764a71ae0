"""No positions at all."""

from __future__ import annotations

from model.position import POSITION, Position


@POSITION.register("none")
class NoPosition(Position):
    """The model is told nothing; only a causal mask can give order away."""
