"""How something grows along a factor: one slope a seed, then the t-interval over seeds.

Points of one seed share its luck, so that a regression over all points would be too sure. Fitted
per seed, every slope is one draw, and n is the number of seeds.

Shapes: S seeds, L levels of the factor.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.estimate import Estimate, Values, mean_of

Floats = NDArray[np.float64]


def seed_slopes(x: ArrayLike, y_SL: ArrayLike) -> Floats:
    """Least squares of every seed: Σ (x − x̄)(y − ȳ) / Σ (x − x̄)²."""
    x_L, y = _curves(x, y_SL)
    centred_L = x_L - x_L.mean()
    slopes: Floats = (y - y.mean(axis=1, keepdims=True)) @ centred_L / (centred_L @ centred_L)
    return slopes


def exponent(levels: ArrayLike, values_SL: ArrayLike, *, resolution: float = 0.0) -> Estimate:
    """b of value ∝ level^b: the slope of log value on log level."""
    x_L, y = _logs(levels, values_SL)
    return mean_of(seed_slopes(x_L, y), resolution=resolution, scale=_rounding(x_L, y))


def local_exponents(
    levels: ArrayLike, values_SL: ArrayLike, *, resolution: float = 0.0
) -> list[Estimate]:
    """b between each level and the next: whether one power law holds throughout."""
    x_L, y = _logs(levels, values_SL)
    return [
        mean_of(
            seed_slopes(x_L[i : i + 2], y[:, i : i + 2]),
            resolution=resolution,
            scale=_rounding(x_L[i : i + 2], y),
        )
        for i in range(x_L.size - 1)
    ]


def growth(levels: ArrayLike, differences_SL: ArrayLike, *, resolution: float = 0.0) -> Estimate:
    """By how much variant − control rises when the factor doubles: its slope on log₂ level."""
    level_L = np.asarray(levels, dtype=np.float64)
    if not (level_L > 0).all():
        raise ValueError("a level is not positive: it has no logarithm")
    x_L, y = _curves(np.log2(level_L), differences_SL)
    return mean_of(seed_slopes(x_L, y), resolution=resolution, scale=_rounding(x_L, y))


def interaction(
    variant: Values,
    control: Values,
    variant_there: Values,
    control_there: Values,
    *,
    resolution: float = 0.0,
) -> Estimate:
    """A difference of differences, seed by seed: (variant − control) there minus here."""
    sides = [
        np.asarray(side, dtype=np.float64)
        for side in (variant_there, control_there, variant, control)
    ]
    assert len({side.shape for side in sides}) == 1, "the same seeds, four times"
    if sides[0].size == 0:
        return Estimate(0)
    scale = float(max(np.abs(side).max() for side in sides))
    there = sides[0] - sides[1]
    return mean_of(there - (sides[2] - sides[3]), resolution=resolution, scale=scale)


def _curves(x: ArrayLike, y_SL: ArrayLike) -> tuple[Floats, Floats]:
    x_L, y = np.asarray(x, dtype=np.float64), np.asarray(y_SL, dtype=np.float64)
    if y.ndim != 2 or y.shape[1] != x_L.size or x_L.size < 2:
        raise ValueError(f"values {y.shape} are not seeds by {x_L.size} levels, two or more")
    if np.unique(x_L).size < x_L.size:
        raise ValueError("a level of the factor stands twice")
    return x_L, y


def _logs(levels: ArrayLike, values_SL: ArrayLike) -> tuple[Floats, Floats]:
    x_L, y = _curves(levels, values_SL)
    if not ((x_L > 0).all() and (y > 0).all()):
        raise ValueError("a level or a value is not positive: it has no logarithm")
    return np.log(x_L), np.log(y)


def _rounding(x_L: Floats, y_SL: Floats) -> float:
    """The scale on which rounding shows in a slope: y's, over the reach of x."""
    return float(np.abs(y_SL).max(initial=1.0) / np.ptp(x_L))
