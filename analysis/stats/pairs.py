"""What pairing by seed achieved: how much luck the two sides of a pair share."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from analysis.stats.estimate import LEVEL, Values, spread


@dataclass(frozen=True)
class Pairing:
    """The correlation of the two sides, its interval, and the share of variance it removed."""

    n: int
    correlation: float = math.nan
    low: float = math.nan
    high: float = math.nan
    saved: float = math.nan  # below 0 where pairing added variance


def correlation(x: Values, y: Values) -> float:
    """Pearson's r; NaN below three pairs, where it is ±1 or nothing."""
    a, b = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    if a.size < 3:
        return math.nan
    scale = float(max(np.abs(a).max(), np.abs(b).max()))
    if spread(a, scale) == 0.0 or spread(b, scale) == 0.0:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    r = float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))
    return max(-1.0, min(1.0, r))


def pairing(variant: Values, control: Values, level: float = LEVEL) -> Pairing:
    """r with the interval tanh(artanh r ± z / √(n − 3)) (Fisher 1921), and what it was worth.

    saved = 1 − var(variant − control) / (var(variant) + var(control))
    """
    v, c = np.asarray(variant, dtype=np.float64), np.asarray(control, dtype=np.float64)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    r = correlation(v, c)
    if math.isnan(r):
        return Pairing(v.size)
    saved = 1 - float(np.var(v - c) / (np.var(v) + np.var(c)))
    if v.size < 4:
        return Pairing(v.size, r, saved=saved)
    if abs(r) == 1.0:
        return Pairing(v.size, r, r, r, saved)
    half = float(special.ndtri((1 + level) / 2)) / math.sqrt(v.size - 3)
    low, high = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    return Pairing(v.size, r, low, high, saved)
