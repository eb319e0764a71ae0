"""The unit of a number as it is written beside it: a share or a ratio has none to name."""

from __future__ import annotations

UNITLESS = frozenset({"", "1", "fraction", "ratio"})


def after_number(unit: str) -> str:
    """` nats/token` behind a number, or nothing."""
    return "" if unit in UNITLESS else f" {unit}"


def after_heading(unit: str) -> str:
    """` (nats/token)` behind a column's or an axis' heading, or nothing."""
    return "" if unit in UNITLESS else f" ({unit})"
