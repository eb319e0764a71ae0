"""Numbers as a cell of a table tells them: with the digits they deserve, and their interval."""

from __future__ import annotations

import math

from analysis.sentences import bounds, number

BEST, TIED = "best", "tied"
MARKS = {BEST: "★", TIED: "≈"}
"""What stands behind a score, for those whom bold type does not reach."""


def with_interval(mean: float, low: float, high: float) -> str:
    """`0.450 (0.434 to 0.467)`."""
    if math.isnan(mean):
        return ""
    half = (high - low) / 2
    return number(mean, half) + (f" ({bounds(low, high)})" if not math.isnan(low) else "")


def marked(text: str, standing: str) -> str:
    """A score with the mark of its standing."""
    return f"{text} {MARKS[standing]}" if text and standing else text


def mark_of(cell: str) -> str:
    """The mark at the end of a cell, or nothing."""
    return next((mark for mark in MARKS.values() if cell.endswith(f" {mark}")), "")


def p_value(p: float) -> str:
    """Two digits, and no more zeros than a t-test on few seeds deserves."""
    if math.isnan(p):
        return ""
    return "< 0.0001" if p < 1e-4 else f"{p:.2g}"


def times(ratio: float, low: float, high: float) -> str:
    """`1.12 × (1.10 to 1.14)`."""
    if math.isnan(ratio):
        return ""
    half = (high - low) / 2
    ends = f" ({bounds(low, high)})" if not math.isnan(low) else ""
    return f"{number(ratio, half)} ×{ends}"


def memory(own: float, control: float = math.nan) -> str:
    """`7 MiB (3.50 ×)`, beside the control's."""
    if math.isnan(own):
        return ""
    against = f" ({own / control:.2f} ×)" if control > 0 else ""
    return f"{own / 2**20:.3g} MiB{against}"
