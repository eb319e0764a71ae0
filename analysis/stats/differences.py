"""Means and paired differences as tables and figures show them: ends, sd, p, effect size."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from analysis.stats.estimate import LEVEL, Estimate, Values, mean_of, paired_mean
from analysis.stats.pairs import correlation


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


def interval(
    values: Values, level: float = LEVEL, scale: float = 0.0, *, resolution: float = 0.0
) -> Interval:
    """Mean and t-interval: mean ± t(n − 1) · sd / √n."""
    found = mean_of(values, resolution=resolution, scale=scale)
    return Interval(found.n, found.value, *found.ends(level), _sd(found))


def paired(
    variant: Values, control: Values, level: float = LEVEL, *, resolution: float = 0.0
) -> Difference:
    """The mean difference of pairs, with the paired t-test."""
    found = paired_mean(variant, control, resolution=resolution)
    sd = _sd(found)
    shown = Difference(found.n, found.value, *found.ends(level), sd)
    if not found.error > 0:
        return shown
    achieved = correlation(variant, control)
    return replace(shown, p=found.p(), effect=found.value / sd, correlation=achieved)


def _sd(found: Estimate) -> float:
    """Of one value; 0 where several are equal and no resolution stands for their spread."""
    equal = found.n > 1 and math.isnan(found.error) and not math.isnan(found.value)
    return 0.0 if equal else found.error * math.sqrt(found.n)
