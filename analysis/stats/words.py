"""The words of a verdict, and when to stay silent."""

from __future__ import annotations

from analysis.stats.differences import Difference
from analysis.stats.estimate import ALPHA

WORSE, BETTER, NOT_RESOLVED = "worse", "better", "not resolved"
LEAST = 3  # pairs; two say next to nothing of their spread
FEW = f"no verdict below n = {LEAST}"
SLOWER, FASTER, NOT_RUN = "slower", "faster", "not run"


def verdict(difference: Difference, p_holm: float, better: str, alpha: float = ALPHA) -> str:
    """Better, worse or not resolved; fewer than three pairs decide nothing."""
    assert better in ("lower", "higher")
    if difference.n == 0:
        return NOT_RUN
    if difference.n < LEAST:
        return FEW
    if not p_holm < alpha:  # also NaN: the same difference in every seed has no known spread
        return NOT_RESOLVED
    return BETTER if (difference.mean < 0) == (better == "lower") else WORSE
