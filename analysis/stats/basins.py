"""A basin claim between paired arms: which share of the same seeds ends past the threshold.

With p10 the chance that only the variant hits and p01 that only the control does, the shares
differ by Δ = p10 − p01, and D = hits − control hits is a sum of n steps of +1, −1 or 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.stats.estimate import LEVEL, Tails
from analysis.stats.shares import boschloo

Outcomes = Sequence[bool] | NDArray[np.bool_]


@dataclass(frozen=True)
class Basin:
    """Shares of seeds in both arms, their difference with an exact interval, and its test."""

    n: int
    hits: int
    control_hits: int
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    tails: Tails = Tails()


def basin(variant: Outcomes, control: Outcomes, level: float = LEVEL) -> Basin:
    """The registered test of a basin claim: Boschloo's, with the exact interval of Δ."""
    v, c = np.asarray(variant, dtype=bool), np.asarray(control, dtype=bool)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    n, hits, control_hits = v.size, int(v.sum()), int(c.sum())
    if n == 0:
        return Basin(0, 0, 0)
    low, high = difference_ends(hits - control_hits, n, level)
    tails = boschloo(hits, n, control_hits, n)
    return Basin(n, hits, control_hits, (hits - control_hits) / n, low, high, tails)


def mcnemar(variant: Outcomes, control: Outcomes) -> Tails:
    """Only seeds where the arms differ count, each a fair coin (McNemar 1947, exact).

    Valid whatever the two arms of a seed share; five seeds cannot pass 1/32.
    """
    v, c = np.asarray(variant, dtype=bool), np.asarray(control, dtype=bool)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    only_variant, only_control = int((v & ~c).sum()), int((c & ~v).sum())
    n = only_variant + only_control
    more = float(special.bdtrc(only_variant - 1, n, 0.5)) if only_variant else 1.0
    less = float(special.bdtrc(only_control - 1, n, 0.5)) if only_control else 1.0
    return Tails(more, less)


def difference_tails(d: int, n: int, null: float = 0.0, *, shared_luck: bool = True) -> Tails:
    """D ≥ d and D ≤ d in the worst case, when the shares differ by `null`.

    shared_luck: a seed that helps one arm does not hurt the other, p11·p00 ≥ p10·p01, which leaves
    √p10 + √p01 ≤ 1. Without it any p10 + p01 ≤ 1, and n seeds cannot pass 2⁻ⁿ.
    """
    if not -n <= d <= n or n < 1:
        raise ValueError(f"{n} seeds cannot differ by {d}")
    more = _worst(d, n, null, shared_luck)
    return Tails(more, _worst(-d, n, -null, shared_luck))


@lru_cache(maxsize=1024)
def difference_ends(
    d: int, n: int, level: float = LEVEL, *, shared_luck: bool = True
) -> tuple[float, float]:
    """The differences of shares that the worst-case test leaves possible (Chan & Zhang 1999)."""
    if not -n <= d <= n or n < 1:
        raise ValueError(f"{n} seeds cannot differ by {d}")
    tail = (1 - level) / 2
    return _lowest(d, n, tail, shared_luck), -_lowest(-d, n, tail, shared_luck)


def _lowest(d: int, n: int, tail: float, shared_luck: bool) -> float:
    """The worst chance of D ≥ d grows with Δ: halve to where it passes the tail."""
    low, high = -1.0, 1.0
    if _worst(d, n, low, shared_luck) > tail:
        return low
    for _ in range(40):
        middle = (low + high) / 2
        if _worst(d, n, middle, shared_luck) > tail:
            high = middle
        else:
            low = middle
    return low


@lru_cache(maxsize=4096)
def _worst(d: int, n: int, null: float, shared_luck: bool) -> float:
    """max over the unknown p01 of P(D ≥ d) with p10 = p01 + null."""
    highest = ((1 - null) / 2) ** 2 if shared_luck else (1 - null) / 2
    p01 = np.linspace(max(0.0, -null), highest, 201)
    p10 = p01 + null
    chance_RD = np.zeros((p01.size, 2 * n + 1))
    chance_RD[:, n] = 1.0  # D = 0 stands in the middle
    for _ in range(n):
        step = chance_RD * (1 - p01 - p10)[:, None]
        step[:, 1:] += chance_RD[:, :-1] * p10[:, None]
        step[:, :-1] += chance_RD[:, 1:] * p01[:, None]
        chance_RD = step
    return float(min(1.0, chance_RD[:, n + d :].sum(axis=1).max()))
