"""The words of a verdict, and when to stay silent."""

from __future__ import annotations

from analysis.stats.differences import Difference
from analysis.stats.estimate import ALPHA

WORSE, BETTER, NOT_RESOLVED, ONE_SEED = "worse", "better", "not resolved", "n=1: no verdict"
SLOWER, FASTER, NOT_RUN = "slower", "faster", "not run"


def verdict(difference: Difference, p_holm: float, better: str, alpha: float = ALPHA) -> str:
    """Better, worse or not resolved; one pair decides nothing."""
    assert better in ("lower", "higher")
    if difference.n == 0:
        return NOT_RUN
    if difference.n == 1:
        return ONE_SEED
    if not p_holm < alpha:  # also NaN: the same difference in every seed has no known spread
        return NOT_RESOLVED
    return BETTER if (difference.mean < 0) == (better == "lower") else WORSE
