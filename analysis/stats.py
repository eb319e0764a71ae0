"""What few seeds can say: paired differences, their intervals, and when to stay silent.

Every function takes and gives plain numbers. What cannot be known is NaN, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

LEVEL = 0.95
ALPHA = 0.05
POWER = 0.8

WORSE, BETTER, NOT_RESOLVED, ONE_SEED = "worse", "better", "not resolved", "n=1: no verdict"
SLOWER, FASTER, NOT_RUN = "slower", "faster", "not run"


@dataclass(frozen=True)
class Interval:
    """A mean with its t-interval; the ends are NaN where the spread cannot be estimated."""

    n: int
    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan


@dataclass(frozen=True)
class Difference(Interval):
    """Variant − control over seeds that both have, and how sure one can be of it."""

    p: float = math.nan
    effect: float = math.nan  # mean over sd of the differences
    correlation: float = math.nan  # what pairing by seed achieved


@dataclass(frozen=True)
class Ratio:
    """Time of one candidate over its reference's, block by block: a geometric mean."""

    n: int
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan


def spread(values: NDArray[np.float64], scale: float) -> float:
    """Standard deviation; 0 where the values only differ by rounding of numbers of that scale."""
    sd = float(np.std(values, ddof=1))
    return 0.0 if sd <= 8 * np.finfo(np.float64).eps * scale else sd


def interval(values: Sequence[float], level: float = LEVEL, scale: float = 0.0) -> Interval:
    """Mean and t-interval: mean ± t(n − 1) · sd / √n."""
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        return Interval(0)
    mean = float(x.mean())
    if x.size == 1:
        return Interval(1, mean)
    sd = spread(x, max(scale, float(np.abs(x).max())))
    if sd == 0.0:
        # Equal values say nothing about how much the next one would differ.
        return Interval(x.size, mean, sd=0.0)
    half = float(stats.t.ppf((1 + level) / 2, x.size - 1)) * sd / math.sqrt(x.size)
    return Interval(x.size, mean, mean - half, mean + half, sd)


def paired(variant: Sequence[float], control: Sequence[float]) -> Difference:
    """The mean difference of pairs, with the paired t-test."""
    v, c = np.asarray(variant, dtype=np.float64), np.asarray(control, dtype=np.float64)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    if v.size == 0:
        return Difference(0)
    scale = float(max(np.abs(v).max(), np.abs(c).max()))
    base = interval((v - c).tolist(), scale=scale)
    if not base.sd > 0.0:
        return Difference(**vars(base))
    effect = base.mean / base.sd
    p = 2 * float(stats.t.sf(abs(effect) * math.sqrt(base.n), base.n - 1))
    return Difference(**vars(base), p=p, effect=effect, correlation=correlation(v, c))


def correlation(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Pearson's r; NaN below three pairs, where it is ±1 or nothing."""
    if x.size < 3:
        return math.nan
    scale = float(max(np.abs(x).max(), np.abs(y).max()))
    if spread(x, scale) == 0.0 or spread(y, scale) == 0.0:
        return math.nan
    return float(np.corrcoef(x, y)[0, 1])


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down p-values; a declared contrast without a p (NaN) still counts."""
    raw = np.asarray(p, dtype=np.float64)
    adjusted = np.full(raw.size, math.nan)
    floor = 0.0
    known = [int(i) for i in np.argsort(raw, kind="stable") if not math.isnan(raw[i])]
    for rank, index in enumerate(known):
        floor = max(floor, min(1.0, float(raw[index]) * (raw.size - rank)))
        adjusted[index] = floor
    return [float(value) for value in adjusted]


@lru_cache(maxsize=512)
def detectable(n: int, alpha: float = ALPHA, power: float = POWER) -> float:
    """The smallest difference, in standard deviations of differences, that n pairs could show."""
    if n < 2:
        return math.nan
    critical = float(stats.t.isf(alpha / 2, n - 1))

    def missing(effect: float) -> float:
        # The far tail is left out: scipy's nct gives NaN there, and it adds less than 1e-6.
        return float(stats.nct.sf(critical, n - 1, effect * math.sqrt(n))) - power

    high = 1.0
    while missing(high) < 0:
        high *= 2
    return float(optimize.brentq(missing, 0.0, high))


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


def timing_ratio(samples: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Paired ratio of timing blocks: t-interval on the mean log ratio, exponentiated."""
    if len(samples) != len(reference):
        raise ValueError(f"{len(samples)} samples but {len(reference)} of the reference")
    if not all(0 < value < math.inf for value in (*samples, *reference)):
        raise ValueError("a time is not a positive number")
    if not len(samples):
        return Ratio(0)
    # Logs are of order 1, so rounding is judged on that scale.
    log = interval(np.log(np.divide(samples, reference)).tolist(), scale=1.0)
    return Ratio(log.n, math.exp(log.mean), math.exp(log.low), math.exp(log.high))


def noise_floor(same: Ratio) -> float:
    """The largest |log ratio| that a candidate timed against itself still allows."""
    if math.isnan(same.low):
        return math.nan
    return max(abs(math.log(end)) for end in (same.low, same.ratio, same.high))


def speed_verdict(ratio: Ratio, floor: float) -> str:
    """Slower or faster, if both the interval and the noise floor of the session allow it."""
    if ratio.n == 0:
        return NOT_RUN
    if ratio.n == 1:
        return ONE_SEED
    seen = abs(math.log(ratio.ratio)) > floor  # NaN floor: no A/A pair, nothing is resolved
    if not seen or not (ratio.low > 1 or ratio.high < 1):
        return NOT_RESOLVED
    return SLOWER if ratio.ratio > 1 else FASTER
