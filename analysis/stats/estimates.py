"""Estimates that seeds scatter about: means, paired differences, slopes and ratios of times.

    (value − truth) / error  follows Student's t with df degrees of freedom

A difference is variant − control. What cannot be known is NaN, never zero: equal values in every
seed say nothing about the next one, so their interval is NaN too.

Shapes: S seeds, I test items, L levels of a factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy import stats as scipy_stats

LEVEL = 0.95
LEAST = 3
"""Seeds, or processes, of a verdict: two say next to nothing of their spread."""
POWER = 0.8
MOST_SEEDS = 1000

Floats = NDArray[np.float64]
Bounds = tuple[float | None, float | None]
"""Between which numbers a value is predicted; None where that side is open."""


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error."""

    n: int
    value: float = math.nan
    error: float = math.nan
    df: float = math.nan

    def ends(self, level: float = LEVEL) -> tuple[float, float]:
        """value ± t(df) · error."""
        half = float(special.stdtrit(self.df, (1 + level) / 2)) * self.error
        return self.value - half, self.value + half

    @property
    def sd(self) -> float:
        """Of the single values."""
        return self.error * math.sqrt(self.n)


@dataclass(frozen=True)
class SeedAndItemEstimate:
    """A mean difference whose error counts seeds and test items (see `seeds_and_items`)."""

    both: Estimate
    """For new seeds and new items of the same kind."""
    same_items: Estimate
    """For new seeds on this very test set: the paired t-test."""
    of_items: float
    """The share of its variance that comes from the items: more seeds do not reduce it."""

    @property
    def n(self) -> int:
        return self.both.n

    @property
    def value(self) -> float:
        return self.both.value

    @property
    def sd(self) -> float:
        """Of the seeds' differences on these items."""
        return self.same_items.sd

    def ends(self, level: float = LEVEL) -> tuple[float, float]:
        """Never narrower than for these items: Satterthwaite's df alone can promise more than
        three seeds hold (92.5 % where both variances are alike)."""
        (low, high), (same_low, same_high) = self.both.ends(level), self.same_items.ends(level)
        return float(np.fmin(low, same_low)), float(np.fmax(high, same_high))


def mean_of(values: ArrayLike, scale: float = 0.0) -> Estimate:
    """The mean: error = sd / √n, df = n − 1 (Student 1908).

    Values that differ only by rounding, of numbers as large as `scale`, count as equal.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        return Estimate(x.size)
    if x.size == 1:
        return Estimate(1, float(x[0]))
    sd = float(x.std(ddof=1))
    if sd <= 8 * np.finfo(np.float64).eps * max(scale, float(np.abs(x).max())):
        return Estimate(x.size, float(x.mean()))
    return Estimate(x.size, float(x.mean()), sd / math.sqrt(x.size), x.size - 1)


def paired_mean(variant: ArrayLike, control: ArrayLike) -> Estimate:
    """The mean of variant − control, seed by seed."""
    v, c = np.asarray(variant, dtype=np.float64), np.asarray(control, dtype=np.float64)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    return mean_of(v - c, scale=float(max(np.abs(v).max(initial=0), np.abs(c).max(initial=0))))


def unpaired_mean(variant: ArrayLike, control: ArrayLike) -> Estimate:
    """The difference of two means whose seeds have nothing in common; n is the smaller side's.

    error² = a + b with a = s²/n of each side, df = (a + b)² / (a²/(n−1) + b²/(m−1)) (Welch 1947)
    """
    one, two = mean_of(variant), mean_of(control)
    n, value = min(one.n, two.n), one.value - two.value
    squares = [0.0 if math.isnan(side.error) else side.error**2 for side in (one, two)]
    if n < 2 or math.isnan(value) or not any(squares):
        return Estimate(n, value)
    parts = zip(squares, (one.n, two.n), strict=True)
    df = sum(squares) ** 2 / sum(square**2 / (size - 1) for square, size in parts)
    return Estimate(n, value, math.sqrt(sum(squares)), df)


def seeds_and_items(differences_SI: ArrayLike) -> SeedAndItemEstimate:
    """A mean difference that holds for other seeds and for other test items.

    All seeds meet the same items, so more seeds never average the items' luck away. With
    d_si = variant − control of seed s on item i, and seeds, items and the rest independent,

        d_si = μ + a_s + b_i + e_si,    var(mean) = σ_a²/S + σ_b²/I + σ_e²/(S·I)

    from the mean squares of a two-way table without repeats (Searle, Casella & McCulloch 1992):
    V = max(MS_a + MS_b − MS_e, MS_a, MS_b) / (S·I), so that no component is negative, with
    df = V² / Σ (MS/(S·I))²/df  (Satterthwaite 1946).
    """
    d = np.asarray(differences_SI, dtype=np.float64)
    if d.ndim != 2:
        raise ValueError(f"differences {d.shape} are not seeds by items")
    S, items = d.shape
    mean = float(d.mean()) if d.size else math.nan
    if S < 2 or items < 2 or not np.isfinite(d).all():
        return SeedAndItemEstimate(Estimate(S, mean), Estimate(S, mean), math.nan)
    by_seed, by_item = d.mean(axis=1), d.mean(axis=0)
    left_SI = d - by_seed[:, None] - by_item[None, :] + mean
    freedom = np.array([S - 1, items - 1, (S - 1) * (items - 1)], dtype=np.float64)
    sums = np.array(
        [
            items * np.square(by_seed - mean).sum(),
            S * np.square(by_item - mean).sum(),
            np.square(left_SI).sum(),
        ]
    )
    tiny = (8 * np.finfo(np.float64).eps * float(np.abs(d).max())) ** 2 * d.size
    a, b, e = parts = np.where(sums <= tiny, 0.0, sums / freedom) / (S * items)
    if a == e == 0.0:  # the same in every seed: nothing is known of the next one
        return SeedAndItemEstimate(Estimate(S, mean), Estimate(S, mean), math.nan)
    variance = max(a + b - e, a, b)
    df = variance**2 / float(np.sum(parts**2 / freedom))
    components = max(0.0, a - e), max(0.0, b - e), e
    return SeedAndItemEstimate(
        both=Estimate(S, mean, math.sqrt(variance), float(df)),
        same_items=Estimate(S, mean, math.sqrt(a) or math.nan, S - 1),
        of_items=float(components[1] / sum(components)),
    )


def exponent(levels: ArrayLike, values_SL: ArrayLike) -> Estimate:
    """b of value ∝ level^b: one slope of log value on log level a seed, then their mean.

    Points of one seed share its luck, so a regression over all points would be too sure.
    """
    level_L, value_SL = (np.asarray(each, dtype=np.float64) for each in (levels, values_SL))
    if not ((level_L > 0).all() and (value_SL > 0).all()):
        raise ValueError("a level or a value is not positive: it has no logarithm")
    return _mean_slope(np.log(level_L), np.log(value_SL))


def growth(levels: ArrayLike, differences_SL: ArrayLike) -> Estimate:
    """By how much a difference rises when the factor doubles: its slope on log₂ level, a seed."""
    level_L = np.asarray(levels, dtype=np.float64)
    if not (level_L > 0).all():
        raise ValueError("a level is not positive: it has no logarithm")
    return _mean_slope(np.log2(level_L), np.asarray(differences_SL, dtype=np.float64))


def _mean_slope(x_L: Floats, y_SL: Floats) -> Estimate:
    """Least squares a seed: Σ (x − x̄)(y − ȳ) / Σ (x − x̄)²."""
    if y_SL.ndim != 2 or y_SL.shape[1] != x_L.size or np.unique(x_L).size < max(2, x_L.size):
        raise ValueError(f"values {y_SL.shape} are not seeds by {x_L.size} levels, two or more")
    centred_L = x_L - x_L.mean()
    slopes = (y_SL - y_SL.mean(axis=1, keepdims=True)) @ centred_L / (centred_L @ centred_L)
    return mean_of(slopes, scale=float(np.abs(y_SL).max(initial=1.0) / np.ptp(x_L)))


def log_ratio(samples: Sequence[float], reference: Sequence[float]) -> float:
    """Of one process: the mean log ratio of its blocks, which share the process's luck."""
    if not samples or len(samples) != len(reference):
        raise ValueError(f"{len(samples)} samples and {len(reference)} of the reference")
    if not all(0 < value < math.inf for value in (*samples, *reference)):
        raise ValueError("a time is not a positive number")
    return float(np.log(np.divide(samples, reference)).mean())


def noise_floor(log_ratios: Sequence[float]) -> float:
    """The largest |log ratio| that a model timed beside itself (A/A) still allows."""
    low, high = mean_of(log_ratios, scale=1.0).ends()
    return max(abs(low), abs(high)) if low == low else math.nan


def ratio_ends(log_ratios: Sequence[float], floor: float = 0.0) -> tuple[float, float, float]:
    """A ratio of times with its interval over processes, never narrower than the A/A interval.

    value · exp(± max(t · error, floor)); NaN ends where either is not known.
    """
    logs = mean_of(log_ratios, scale=1.0)
    half = float(np.maximum(logs.ends()[1] - logs.value, floor))
    return math.exp(logs.value), math.exp(logs.value - half), math.exp(logs.value + half)


def seeds_needed(effect: float, sd: float, bounds: Bounds) -> float:
    """Fresh seeds whose interval decides in four of five tries, if effect and sd are the truth.

    An edge at distance δ is cleared with probability P(T > t₀.₉₇₅), T noncentral t with
    δ·√n / sd. Inside, every edge has to be cleared; outside, the nearest.
    """
    leads = [effect - edge if i == 0 else edge - effect
             for i, edge in enumerate(bounds) if edge is not None]  # fmt: skip
    distances = np.array(leads if min(leads) > 0 else [-min(leads)])
    if not sd > 0 or not distances.min() > 0:
        return math.inf
    n = np.arange(LEAST, MOST_SEEDS + 1)
    least_t = scipy_stats.t.ppf(0.5 + LEVEL / 2, n - 1)
    missed = scipy_stats.nct.cdf(least_t, n - 1, distances[:, None] * np.sqrt(n) / sd)
    enough = np.flatnonzero(1 - missed.sum(axis=0) >= POWER)
    return float(n[enough[0]]) if enough.size else math.inf
