"""A number that seeds scatter about, its interval at any level, and its tests.

    (value − truth) / error  follows Student's t with df degrees of freedom

Means, paired and unpaired differences, slopes and interactions are all of this form.

Equal values say nothing about how much the next one would differ: an sd of exactly 0 has no
interval and no p (both NaN), unless a resolution was registered, the smallest step that the measure
can tell. Values that read the same lie within one step of each other, so their true sd is below it:
an sd below the resolution is raised to it. That only widens intervals; `raised` says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

LEVEL = 0.95
ALPHA = 0.05

Values = Sequence[float] | NDArray[np.float64]


@dataclass(frozen=True)
class Tails:
    """Two one-sided p-values: small `more` shows that the truth is above, small `less` below."""

    more: float = math.nan
    less: float = math.nan

    @property
    def two_sided(self) -> float:
        """Twice the smaller one, at most 1: valid for discrete tests too."""
        return float(np.minimum(1.0, 2 * np.minimum(self.more, self.less)))

    @property
    def swapped(self) -> Tails:
        return Tails(self.less, self.more)


@dataclass(frozen=True)
class Estimate:
    """A value with its standard error; what cannot be known is NaN."""

    n: int
    value: float = math.nan
    error: float = math.nan
    df: float = math.nan
    raised: bool = False  # the spread was below the registered resolution, which stands for it

    def ends(self, level: float = LEVEL) -> tuple[float, float]:
        """value ± t(df) · error."""
        half = float(special.stdtrit(self.df, (1 + level) / 2)) * self.error
        return self.value - half, self.value + half

    def tails(self, null: float = 0.0) -> Tails:
        """Against `at most null` and against `at least null` (Student's t-test)."""
        if not self.error > 0:
            return Tails()
        t = (self.value - null) / self.error
        return Tails(float(special.stdtr(self.df, -t)), float(special.stdtr(self.df, t)))

    def p(self, null: float = 0.0) -> float:
        """Against `exactly null`."""
        return self.tails(null).two_sided

    @property
    def mirrored(self) -> Estimate:
        """The same with the sides swapped."""
        return Estimate(self.n, -self.value, self.error, self.df, self.raised)


def spread(values: NDArray[np.float64], scale: float) -> float:
    """Standard deviation; 0 where the values only differ by rounding of numbers of that scale."""
    sd = math.sqrt(np.square(values - values.mean()).sum() / (values.size - 1))
    return 0.0 if sd <= 8 * np.finfo(np.float64).eps * scale else sd


def mean_of(values: Values, *, resolution: float = 0.0, scale: float = 0.0) -> Estimate:
    """The mean: error = sd / √n, df = n − 1 (Student 1908)."""
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0 or not np.isfinite(x).all():
        return Estimate(x.size)
    mean = float(x.mean())
    if x.size == 1:
        return Estimate(1, mean)
    sd = spread(x, max(scale, float(np.abs(x).max())))
    error = max(sd, resolution) / math.sqrt(x.size) or math.nan
    return Estimate(x.size, mean, error, x.size - 1, raised=sd < resolution)


def fact(value: float) -> Estimate:
    """Something that is counted: known to rounding, with nothing left to luck."""
    if not math.isfinite(value):
        return Estimate(1)
    return Estimate(1, value, 1e-12 * max(1.0, abs(value)), 1e9)


def paired_mean(variant: Values, control: Values, *, resolution: float = 0.0) -> Estimate:
    """The mean of variant − control, seed by seed."""
    v, c = np.asarray(variant, dtype=np.float64), np.asarray(control, dtype=np.float64)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    if v.size == 0 or not (np.isfinite(v).all() and np.isfinite(c).all()):
        return Estimate(v.size)
    scale = float(max(np.abs(v).max(), np.abs(c).max()))
    return mean_of(v - c, resolution=resolution, scale=scale)


def unpaired_mean(variant: Values, control: Values, *, resolution: float = 0.0) -> Estimate:
    """The difference of two means whose seeds have nothing in common; n is the smaller side's.

    error² = a + b with a = s²/n of each side, df = (a + b)² / (a²/(n−1) + b²/(m−1)) (Welch 1947)
    """
    sides = [mean_of(side, resolution=resolution) for side in (variant, control)]
    n, value = min(side.n for side in sides), sides[0].value - sides[1].value
    if n < 2 or math.isnan(value):
        return Estimate(n, value)
    # A side without spread adds nothing to the error; two of them leave nothing to judge by.
    squares = [0.0 if math.isnan(side.error) else side.error**2 for side in sides]
    if not any(squares):
        return Estimate(n, value)
    df = sum(squares) ** 2 / sum(s**2 / side.df for s, side in zip(squares, sides, strict=True))
    raised = any(side.raised for side in sides)
    return Estimate(n, value, math.sqrt(sum(squares)), df, raised)
