"""Rates of success: how many of the same seeds succeed with a variant and with its control."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import stats as scipy_stats

from analysis.stats.estimates import LEVEL


def rate_ends(hits: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The rates that hits of n leave possible (Clopper & Pearson 1934): shown, never judged."""
    found = scipy_stats.binomtest(hits, n).proportion_ci(level)
    return float(found.low), float(found.high)


@lru_cache(maxsize=1024)
def difference_ends(d: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The exact interval of a difference of rates of n pairs, of which d more succeed.

    With p10 the chance that only the variant succeeds and p01 that only the control does, the rates
    differ by Δ = p10 − p01, and d is a sum of n steps of +1, −1 or 0. Both ends invert a one-sided
    test at half the error, in the worst case over the p01 that is not known (Chan & Zhang 1999).

    A seed that helps one side is taken not to hurt the other: p11·p00 ≥ p10·p01, which leaves
    √p10 + √p01 ≤ 1. Independent sides are such a case. At five seeds 5–0 and 4–0 exclude zero.
    """
    if not -n <= d <= n or n < 1:
        raise ValueError(f"{n} seeds cannot differ by {d}")
    tail = (1 - level) / 2
    return _lowest(d, n, tail), -_lowest(-d, n, tail)


def _lowest(d: int, n: int, tail: float) -> float:
    """The worst chance of d or more grows with Δ: halve to where it passes the tail."""
    low, high = -1.0, 1.0
    if _worst(d, n, low) > tail:
        return low
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if _worst(d, n, middle) > tail else (middle, high)
    return low


def _worst(d: int, n: int, difference: float) -> float:
    """The largest chance of d or more, over p01, where p10 = p01 + difference."""
    p01 = np.linspace(max(0.0, -difference), ((1 - difference) / 2) ** 2, 201)
    p10 = p01 + difference
    chance_RD = np.zeros((p01.size, 2 * n + 1))
    chance_RD[:, n] = 1.0  # no difference stands in the middle
    for _ in range(n):
        step = chance_RD * (1 - p01 - p10)[:, None]
        step[:, 1:] += chance_RD[:, :-1] * p10[:, None]
        step[:, :-1] += chance_RD[:, 1:] * p01[:, None]
        chance_RD = step
    return float(chance_RD[:, n + d :].sum(axis=1).max())
