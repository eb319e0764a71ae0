"""Where along a factor two variants change places, if that is shown at all.

The intervals of the difference hold at every level at once (Bonferroni: level 1 − 0.05 / L each).
If the true curve is straight between neighbouring levels of log factor, the band joined by straight
lines holds in between as well, and every zero of the curve lies where the band contains 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.estimates import LEVEL, mean_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Crossing:
    """Where the difference is zero: low … high; an end that no level closes is 0 or infinite."""

    changes: int
    """Changes of sign that the band shows. Without one, low … high is where one could still be,
    and NaN where every level rules it out."""
    low: float = math.nan
    high: float = math.nan
    at: float = math.nan
    """Where the mean curve crosses, if it does once."""
    signs: tuple[int, ...] = ()
    """Of each level: −1 or 1 where the band shows it, else 0."""


def crossing(
    levels: ArrayLike, differences_SL: ArrayLike, floor: float = 0.0, *, exact: bool = False
) -> Crossing:
    """Invert the band of the difference curve (cf. Fieller 1954).

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
    # A level without an interval (NaN) is neither above nor below: anything is possible there.
    sign_L = np.where(low_L > 0, 1, np.where(high_L < 0, -1, 0))
    zeros = _zeros(x_L, mean_L)
    changes, left, right = _inverted(x_L, low_L, high_L, sign_L)
    at = math.exp(zeros[0]) if len(zeros) == 1 else math.nan
    return Crossing(changes, math.exp(left), math.exp(right), at, tuple(sign_L.tolist()))


def _inverted(
    x_L: Floats, low_L: Floats, high_L: Floats, sign_L: NDArray[np.int_]
) -> tuple[int, float, float]:
    """Sign changes that are sure, and on the log scale where a zero may be."""
    sure, unsure = np.flatnonzero(sign_L), np.flatnonzero(sign_L == 0)
    turns = [(i, j) for i, j in pairwise(sure.tolist()) if sign_L[i] != sign_L[j]]
    if turns:
        before, after = turns[0][0], turns[-1][1]
    elif unsure.size:
        before, after = int(unsure[0]) - 1, int(unsure[-1]) + 1
    else:
        return 0, math.nan, math.nan

    def edge(sure: int, step: int) -> float:
        """Where the band, sure of its sign at one level, first touches 0 on the way to the next."""
        near_L = low_L if sign_L[sure] > 0 else high_L
        here, there = near_L[sure], near_L[sure + step]
        if math.isnan(there) or here == there:
            return float(x_L[sure])
        return float(x_L[sure] + (x_L[sure + step] - x_L[sure]) * here / (here - there))

    left = edge(before, 1) if before >= 0 else -math.inf
    return len(turns), left, edge(after, -1) if after < x_L.size else math.inf


def _zeros(x_L: Floats, y_L: Floats) -> list[float]:
    """Sign changes of a curve of straight pieces: within one, or on the level between two."""
    last = x_L.size - 1
    within = [
        float(x_L[i] + (x_L[i + 1] - x_L[i]) * y_L[i] / (y_L[i] - y_L[i + 1]))
        for i in range(last)
        if y_L[i] * y_L[i + 1] < 0
    ]
    on = [float(x_L[i]) for i in range(1, last) if y_L[i] == 0 and y_L[i - 1] * y_L[i + 1] < 0]
    return within + on
