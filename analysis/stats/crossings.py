"""Where along a factor two arms change places, if that is shown at all.

A band of variant − control holds at every level at once (Bonferroni: level 1 − alpha / L each;
Scheffé's needs more seeds than levels). If the true curve is straight between neighbouring levels
of log factor, the band joined by straight lines holds in between as well, and every zero of the
curve lies where the band contains 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.estimate import LEVEL, mean_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Crossing:
    """Where the arms change places: low … high; an end that no level closes is 0 or infinite.

    changes: sign changes that the band shows, 0 for *no crossing shown*. Then low … high is where
    one could still be, and NaN where every level measured rules it out.
    """

    changes: int
    low: float = math.nan
    high: float = math.nan
    at: float = math.nan  # where the mean curve crosses, if it does once

    @property
    def shown(self) -> bool:
        return self.changes > 0


def crossing(
    levels: ArrayLike, differences_SL: ArrayLike, level: float = LEVEL, *, resolution: float = 0.0
) -> Crossing:
    """Invert the simultaneous band of the difference curve (cf. Fieller 1954)."""
    level_L = np.asarray(levels, dtype=np.float64)
    d = np.asarray(differences_SL, dtype=np.float64)
    if d.ndim != 2 or d.shape[1] != level_L.size or level_L.size < 2:
        raise ValueError(f"differences {d.shape} are not seeds by {level_L.size} levels, 2 or more")
    if not (level_L > 0).all() or not (np.diff(level_L) > 0).all():
        raise ValueError("levels of a factor are positive and rising")
    x_L, each = np.log(level_L), 1 - (1 - level) / level_L.size
    means = [mean_of(column, resolution=resolution) for column in d.T]
    low_L, high_L = np.array([mean.ends(each) for mean in means]).T
    at = _zeros(x_L, np.array([mean.value for mean in means]))
    # A level without a band (NaN) is neither above nor below: anything is possible there.
    sign_L = np.where(low_L > 0, 1, np.where(high_L < 0, -1, 0))
    changes, left, right = _inverted(x_L, low_L, high_L, sign_L)
    mean = math.exp(at[0]) if len(at) == 1 else math.nan
    return Crossing(changes, math.exp(left), math.exp(right), mean)


def _inverted(
    x_L: Floats, low_L: Floats, high_L: Floats, sign_L: NDArray[np.int_]
) -> tuple[int, float, float]:
    """Sign changes that are sure, and on the log scale where a zero may be."""
    sure = np.flatnonzero(sign_L)
    turns = [(i, j) for i, j in pairwise(sure.tolist()) if sign_L[i] != sign_L[j]]
    unsure = np.flatnonzero(sign_L == 0)
    if turns:
        before, after = turns[0][0], turns[-1][1]
    elif unsure.size:
        before, after = int(unsure[0]) - 1, int(unsure[-1]) + 1
    else:
        return 0, math.nan, math.nan
    left = _edge(x_L, low_L, high_L, sign_L, before, 1) if before >= 0 else -math.inf
    right = _edge(x_L, low_L, high_L, sign_L, after, -1) if after < x_L.size else math.inf
    return len(turns), left, right


def _edge(
    x_L: Floats, low_L: Floats, high_L: Floats, sign_L: NDArray[np.int_], sure: int, step: int
) -> float:
    """Where the band, sure of its sign at one level, first touches 0 on the way to the next."""
    near_L = low_L if sign_L[sure] > 0 else high_L
    here, there = near_L[sure], near_L[sure + step]
    if math.isnan(there):
        return float(x_L[sure])
    return float(x_L[sure] + (x_L[sure + step] - x_L[sure]) * here / (here - there))


def _zeros(x_L: Floats, y_L: Floats) -> list[float]:
    """Sign changes of a curve of straight pieces: within one, or on the level between two."""
    within = [
        float(x_L[i] + (x_L[i + 1] - x_L[i]) * y_L[i] / (y_L[i] - y_L[i + 1]))
        for i in range(x_L.size - 1)
        if y_L[i] * y_L[i + 1] < 0
    ]
    on = [
        float(x_L[i]) for i in range(1, x_L.size - 1) if y_L[i] == 0 and y_L[i - 1] * y_L[i + 1] < 0
    ]
    return within + on
