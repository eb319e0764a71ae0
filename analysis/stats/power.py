"""How many seeds a claim would take, and what the seeds at hand could have shown.

Power of a one-sided t-test at level α, when the truth is d standard deviations past its null:

    E_u Φ(√n d − t u),  u = s / σ,  (n − 1) u² ~ χ²(n − 1),  t = t_{1−α}(n − 1)

of equivalence within ±d when the truth is 0: E_u max(0, 2 Φ(√n d − t u) − 1) (Schuirmann 1987).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from analysis.stats.estimate import ALPHA

POWER = 0.8
LIMIT = 0.8  # level of the range that an estimated sd leaves
MOST = 1_000_000  # more seeds than that are infinitely many
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)


@dataclass(frozen=True)
class SeedsNeeded:
    """Seeds for a decision if the sd is at its lower limit, as observed, at its upper limit."""

    low: float = math.nan
    expected: float = math.nan
    high: float = math.nan


def power_of(n: int, distance: float, alpha: float = ALPHA, *, equal: bool = False) -> float:
    """Chance of a decision at n seeds; `distance` in standard deviations of one seed's value."""
    df = n - 1
    critical = float(special.stdtrit(df, 1 - alpha))
    low = math.sqrt(float(special.chdtri(df, 1 - 1e-13)) / df)
    high = math.sqrt(float(special.chdtri(df, 1e-13)) / df)
    if equal:  # a spread past this one leaves no room between the margins
        high = min(high, math.sqrt(n) * distance / critical)
    if high <= low:
        return 0.0
    # Φ steps from 1 to 0 about this spread, steeply where `critical` is large: a panel of its own.
    step = [(math.sqrt(n) * distance + side) / critical for side in (-9, 9)]
    edges = np.unique(np.clip([low, *step, high], low, high))
    start_P1, width_P1 = edges[:-1, None], np.diff(edges)[:, None]
    u_PN = start_P1 + width_P1 * (NODES + 1) / 2
    log_density = special.xlogy(df - 1, u_PN) - df * u_PN**2 / 2
    log_density += math.log(2) + df / 2 * math.log(df / 2) - math.lgamma(df / 2)
    hit = special.ndtr(math.sqrt(n) * distance - critical * u_PN)
    hit = np.maximum(0.0, 2 * hit - 1) if equal else hit
    return float((hit * np.exp(log_density) * WEIGHTS * width_P1 / 2).sum())


def seeds_needed(
    distance: float,
    sd: float,
    n: int,
    alpha: float = ALPHA,
    power: float = POWER,
    *,
    equal: bool = False,
    limit: float = LIMIT,
) -> SeedsNeeded:
    """Seeds at which 80 % of experiments would decide, over what n seeds leave open of the sd.

    `distance` lies between the truth supposed and the null (for equality the margin). The range
    is the central interval of σ, √((n − 1) / χ²_{(1±limit)/2}) · sd. `alpha` is one-sided, after
    the shares of the family and of the look.
    """
    if n < 2 or not sd > 0 or math.isnan(distance):
        return SeedsNeeded()
    tails = ((1 - limit) / 2, (1 + limit) / 2)  # small σ goes with a large χ², the upper tail
    factors = [math.sqrt((n - 1) / float(special.chdtri(n - 1, tail))) for tail in tails]
    low, expected, high = (
        _fewest(distance / (sd * factor), alpha, power, equal)
        for factor in (factors[0], 1.0, factors[1])
    )
    return SeedsNeeded(low, expected, high)


@lru_cache(maxsize=4096)
def _fewest(distance: float, alpha: float, power: float, equal: bool) -> float:
    """The smallest n of enough power, by doubling and halving: past .3 power grows with n."""
    if not distance > 0:
        return math.inf
    short, enough = 1, 2
    while power_of(enough, distance, alpha, equal=equal) < power:
        short, enough = enough, 2 * enough
        if enough > MOST:
            return math.inf
    while enough - short > 1:
        middle = (short + enough) // 2
        if power_of(middle, distance, alpha, equal=equal) < power:
            short = middle
        else:
            enough = middle
    return float(enough)


@lru_cache(maxsize=512)
def detectable(n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference, in standard deviations of differences, that n pairs could show."""
    if n < 2:
        return math.nan

    def missing(effect: float) -> float:
        # Two-sided; the far tail is left out, it adds less than 1e-6.
        return power_of(n, effect, alpha / 2) - power

    high = 1.0
    while missing(high) < 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high))
