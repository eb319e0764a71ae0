"""Estimates with 95 % intervals from a few seeds.

    (value − truth) / error  follows Student's t with df degrees of freedom

A difference is variant − baseline. What is unknown is NaN, never zero: equal values in every seed
say nothing about the next one, so their interval is NaN too.

Shapes: S seeds, I test items, L levels of a factor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy import stats as scipy_stats

BETTER, WORSE, TIE, NOT_RESOLVED = "better", "worse", "tie", "not resolved"
FAILED, FEW, UNFINISHED, NOT_RUN = "failed", "few seeds", "unfinished", "not run"
SLOWER, FASTER = "slower", "faster"
LEVEL = 0.95
LEAST = 3
"""Seeds or processes that a verdict needs; two hardly show their spread."""
POWER = 0.8
MOST_SEEDS = 1000

Floats = NDArray[np.float64]
Bounds = tuple[float | None, float | None]
"""A predicted range; None at an open end."""


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error."""

    n: int
    value: float = math.nan
    error: float = math.nan
    df: float = math.nan

    same_items: Estimate | None = None
    """If test items count, too (`seeds_and_items`): the estimate for these items only."""
    of_items: float | None = None
    """The share of its variance that comes from the items: more seeds do not reduce it."""

    def ends(self, level: float = LEVEL) -> tuple[float, float]:
        """value ± t(df) · error; NaN from fewer than three.

        Never narrower than for the same items: Satterthwaite's df alone can promise more than
        three seeds hold (92.5 % where both variances are alike).
        """
        if self.n < LEAST:
            return math.nan, math.nan
        each = [self] if self.same_items is None else [self, self.same_items]
        halves = [float(special.stdtrit(e.df, (1 + level) / 2)) * e.error for e in each]
        half = float(np.fmax.reduce(halves))
        return self.value - half, self.value + half

    @property
    def sd(self) -> float:
        """Standard deviation of the single seeds, on these items."""
        return (self.same_items or self).error * math.sqrt(self.n)


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


def seeds_and_items(differences_SI: ArrayLike) -> Estimate:
    """A mean difference that holds for other seeds and for other test items.

    All seeds see the same items, so more seeds do not average out the choice of items. With
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
        return Estimate(S, mean)
    by_seed, by_item = d.mean(axis=1), d.mean(axis=0)
    left_SI = d - by_seed[:, None] - by_item[None, :] + mean
    freedom = np.array([S - 1, items - 1, (S - 1) * (items - 1)], dtype=np.float64)
    squares = [np.square(each).sum() for each in (by_seed - mean, by_item - mean, left_SI)]
    sums = np.array([items, S, 1]) * squares
    tiny = (8 * np.finfo(np.float64).eps * float(np.abs(d).max())) ** 2 * d.size
    a, b, e = parts = np.where(sums <= tiny, 0.0, sums / freedom) / (S * items)
    if a == e == 0.0:  # equal in every seed, which says nothing about the next
        return Estimate(S, mean)
    variance = max(a + b - e, a, b)
    df = variance**2 / float(np.sum(parts**2 / freedom))
    components = max(0.0, a - e), max(0.0, b - e), e
    same_items = Estimate(S, mean, math.sqrt(a) or math.nan, S - 1)
    share = float(components[1] / sum(components))
    return Estimate(S, mean, math.sqrt(variance), float(df), same_items, share)


def exponent(levels: ArrayLike, values_SL: ArrayLike) -> Estimate:
    """b of value ∝ level^b: one slope of log value on log level a seed, then their mean.

    Points of one seed are correlated, so one regression over all points would be too sure.
    """
    value_SL = np.asarray(values_SL, dtype=np.float64)
    if not (value_SL > 0).all():
        raise ValueError("a value is not positive: it has no logarithm")
    return _mean_slope(np.log, levels, np.log(value_SL))


def growth(levels: ArrayLike, differences_SL: ArrayLike) -> Estimate:
    """By how much a difference rises when the factor doubles: its slope on log₂ level, a seed."""
    return _mean_slope(np.log2, levels, np.asarray(differences_SL, dtype=np.float64))


def _mean_slope(log: Callable[[Floats], Floats], levels: ArrayLike, y_SL: Floats) -> Estimate:
    """Least squares a seed: Σ (x − x̄)(y − ȳ) / Σ (x − x̄)²."""
    level_L = np.asarray(levels, dtype=np.float64)
    if not (level_L > 0).all():
        raise ValueError("a level is not positive: it has no logarithm")
    x_L = log(level_L)
    if y_SL.ndim != 2 or y_SL.shape[1] != x_L.size or np.unique(x_L).size < max(2, x_L.size):
        raise ValueError(f"values {y_SL.shape} are not seeds by {x_L.size} levels, two or more")
    centred_L = x_L - x_L.mean()
    slopes = (y_SL - y_SL.mean(axis=1, keepdims=True)) @ centred_L / (centred_L @ centred_L)
    return mean_of(slopes, scale=float(np.abs(y_SL).max(initial=1.0) / np.ptp(x_L)))


def log_ratio(samples: Sequence[float], reference: Sequence[float]) -> float:
    """The mean log ratio of one process over its blocks, which are correlated."""
    if not samples or len(samples) != len(reference):
        raise ValueError(f"{len(samples)} samples and {len(reference)} of the reference")
    if not all(0 < value < math.inf for value in (*samples, *reference)):
        raise ValueError("a time is not a positive number")
    return float(np.log(np.divide(samples, reference)).mean())


def noise_floor(log_ratios: Sequence[float]) -> float:
    """The largest |log ratio| in the interval of a model timed against itself (A/A)."""
    low, high = mean_of(log_ratios, scale=1.0).ends()
    return max(abs(low), abs(high)) if low == low else math.nan


def ratio_ends(log_ratios: Sequence[float], floor: float = 0.0) -> tuple[float, float, float]:
    """A ratio of times with its interval over processes, never narrower than the A/A interval.

    value · exp(± max(t · error, floor)); NaN ends if either is unknown.
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
    n = np.unique(np.geomspace(LEAST, MOST_SEEDS, 100).round())
    least_t = scipy_stats.t.ppf(0.5 + LEVEL / 2, n - 1)
    missed = scipy_stats.nct.cdf(least_t, n - 1, distances[:, None] * np.sqrt(n) / sd)
    enough = np.flatnonzero(1 - missed.sum(axis=0) >= POWER)
    return float(n[enough[0]]) if enough.size else math.inf


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
    """Bisect for the Δ at which the worst chance of d or more passes the tail."""
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
    chance_RD[:, n] = 1.0  # a difference of 0 is in the middle
    for _ in range(n):
        step = chance_RD * (1 - p01 - p10)[:, None]
        step[:, 1:] += chance_RD[:, :-1] * p10[:, None]
        step[:, :-1] += chance_RD[:, 1:] * p01[:, None]
        chance_RD = step
    return float(chance_RD[:, n + d :].sum(axis=1).max())


@dataclass(frozen=True)
class Crossing:
    """The interval in which a difference is zero; an open end is 0 or infinite."""

    changes: int
    """Changes of sign that the band shows. Without any, one may still be between low and
    high; NaN if every level rules it out."""
    low: float = math.nan
    high: float = math.nan
    at: float = math.nan
    """Where the mean curve crosses zero, if exactly once."""
    signs: tuple[int, ...] = ()
    """Sign at each level: −1 or 1 if the band shows it, else 0."""


def crossing(
    levels: ArrayLike, differences_SL: ArrayLike, floor: float = 0.0, *, exact: bool = False
) -> Crossing:
    """Where along a factor two variants change places: invert the band of their difference (cf.
    Fieller 1954).

    The intervals hold at every level at once (Bonferroni: level 1 − 0.05 / L each). If the true
    curve is straight between neighbouring levels of log factor, the band joined by straight lines
    holds in between as well, and every zero of the curve lies where the band contains 0.
    No interval is narrower than ± floor; `exact`: the values are counted and have no noise.
    """
    level_L = np.asarray(levels, dtype=np.float64)
    d = np.asarray(differences_SL, dtype=np.float64)
    if d.ndim != 2 or d.shape[1] != level_L.size or level_L.size < 2:
        raise ValueError(f"differences {d.shape} are not seeds by {level_L.size} levels, 2 or more")
    if not (level_L > 0).all() or not (np.diff(level_L) > 0).all():
        raise ValueError("levels of a factor are positive and rising")
    x_L, mean_L = np.log(level_L), d.mean(axis=0)
    if exact:
        half_L = np.zeros_like(x_L)
    else:
        each = 1 - (1 - LEVEL) / level_L.size
        ends = [mean_of(column).ends(each)[1] for column in d.T]
        half_L = np.maximum(np.array(ends) - mean_L, floor)
    low_L, high_L = mean_L - half_L, mean_L + half_L
    # A level without an interval (NaN) has no sign: anything is possible there.
    sign_L = np.where(low_L > 0, 1, np.where(high_L < 0, -1, 0))
    zeros = _zeros(x_L, mean_L)
    changes, left, right = _inverted(x_L, low_L, high_L, sign_L)
    at = math.exp(zeros[0]) if len(zeros) == 1 else math.nan
    return Crossing(changes, math.exp(left), math.exp(right), at, tuple(sign_L.tolist()))


def _inverted(
    x_L: Floats, low_L: Floats, high_L: Floats, sign_L: NDArray[np.int_]
) -> tuple[int, float, float]:
    """The number of sure sign changes, and between which logs of the level a zero may lie."""
    sure, unsure = np.flatnonzero(sign_L), np.flatnonzero(sign_L == 0)
    turns = [(i, j) for i, j in pairwise(sure.tolist()) if sign_L[i] != sign_L[j]]
    if turns:
        before, after = turns[0][0], turns[-1][1]
    elif unsure.size:
        before, after = int(unsure[0]) - 1, int(unsure[-1]) + 1
    else:
        return 0, math.nan, math.nan

    def edge(sure: int, step: int) -> float:
        """Where the band first reaches 0 between a level of sure sign and the next."""
        near_L = low_L if sign_L[sure] > 0 else high_L
        here, there = near_L[sure], near_L[sure + step]
        if math.isnan(there) or here == there:
            return float(x_L[sure])
        return float(x_L[sure] + (x_L[sure + step] - x_L[sure]) * here / (here - there))

    left = edge(before, 1) if before >= 0 else -math.inf
    return len(turns), left, edge(after, -1) if after < x_L.size else math.inf


def _zeros(x_L: Floats, y_L: Floats) -> list[float]:
    """Zeros of a piecewise linear curve at which its sign changes."""
    last = x_L.size - 1
    within = [
        float(x_L[i] + (x_L[i + 1] - x_L[i]) * y_L[i] / (y_L[i] - y_L[i + 1]))
        for i in range(last)
        if y_L[i] * y_L[i + 1] < 0
    ]
    on = [float(x_L[i]) for i in range(1, last) if y_L[i] == 0 and y_L[i - 1] * y_L[i + 1] < 0]
    return within + on
