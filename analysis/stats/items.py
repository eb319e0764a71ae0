"""Whose luck a difference hangs on: the seeds', or that of the items that happen to be tested.

All seeds meet the same test items, so that more seeds never average the items' luck away. With
d_si = variant − control of seed s on item i, and seeds, items and the rest drawn independently,

    d_si = μ + a_s + b_i + e_si,    var(mean) = σ_a²/S + σ_b²/I + σ_e²/(S·I)

from the mean squares of a two-way table without repeats (Searle, Casella & McCulloch 1992).

Shapes: S seeds, I items.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from analysis.stats.estimate import LEVEL, Estimate, Tails


@dataclass(frozen=True)
class TwoLucks:
    """The mean difference with both kinds of luck, and what each adds to its variance."""

    both: Estimate  # for new seeds and new items of the same kind
    same_items: Estimate  # for new seeds on this very test set: the paired t
    seeds: float = math.nan  # σ_a²/S
    items: float = math.nan  # σ_b²/I
    rest: float = math.nan  # σ_e²/(S·I)

    @property
    def n(self) -> int:
        return self.both.n

    @property
    def value(self) -> float:
        return self.both.value

    @property
    def error(self) -> float:
        """The larger one; NaN where nothing is known."""
        return float(np.fmax(self.both.error, self.same_items.error))

    @property
    def mirrored(self) -> TwoLucks:
        """The same with the sides swapped."""
        parts = self.seeds, self.items, self.rest
        return TwoLucks(self.both.mirrored, self.same_items.mirrored, *parts)

    def ends(self, level: float = LEVEL) -> tuple[float, float]:
        """For new seeds and items, and never narrower than for these items.

        Satterthwaite's df can promise more than three seeds hold: alone it covers 92.5 % where
        both kinds of luck are alike.
        """
        low, high = self.both.ends(level)
        same_low, same_high = self.same_items.ends(level)
        return float(np.fmin(low, same_low)), float(np.fmax(high, same_high))

    def tails(self, null: float = 0.0) -> Tails:
        """The test that belongs to those ends."""
        both, same = self.both.tails(null), self.same_items.tails(null)
        return Tails(float(np.fmax(both.more, same.more)), float(np.fmax(both.less, same.less)))


def widened(estimate: Estimate | TwoLucks, error: float) -> Estimate | TwoLucks:
    """With one more independent error: errors add as squares."""
    if error == 0.0:
        return estimate
    if isinstance(estimate, TwoLucks):
        both, same = _with_error(estimate.both, error), _with_error(estimate.same_items, error)
        return replace(estimate, both=both, same_items=same)
    return _with_error(estimate, error)


def _with_error(estimate: Estimate, error: float) -> Estimate:
    return replace(estimate, error=math.hypot(estimate.error, error))


def two_lucks(differences_SI: ArrayLike, sizes_I: ArrayLike | None = None) -> TwoLucks:
    """From d_si per item; with sizes, of a rate such as errors per token.

    V = max(MS_a + MS_b − MS_e, MS_a, MS_b) / (S·I), so that no component is negative;
    df = V² / Σ (MS/(S·I))²/df  (Satterthwaite 1946).
    Sizes: μ = Σd / (S·Σsize), and d_si stands for μ + (d_si − μ·size_i) / mean size, its
    linearisation (Cochran 1977), for the sizes of new items vary as well.
    """
    d = np.asarray(differences_SI, dtype=np.float64)
    if d.ndim != 2:
        raise ValueError(f"differences {d.shape} are not seeds by items")
    if sizes_I is not None:
        d = _linearised(d, np.asarray(sizes_I, dtype=np.float64))
    S, items = d.shape
    if S < 2 or items < 2 or not np.isfinite(d).all():
        nothing = Estimate(S, float(d.mean()) if d.size else math.nan)
        return TwoLucks(nothing, nothing)
    mean, by_seed, by_item = float(d.mean()), d.mean(axis=1), d.mean(axis=0)
    left_SI = d - by_seed[:, None] - by_item[None, :] + mean
    freedom = (S - 1, items - 1, (S - 1) * (items - 1))
    sums = (
        items * float(np.square(by_seed - mean).sum()),
        S * float(np.square(by_item - mean).sum()),
        float(np.square(left_SI).sum()),
    )
    tiny = (8 * np.finfo(np.float64).eps * float(np.abs(d).max())) ** 2 * d.size
    squares = [0.0 if s <= tiny else s / df for s, df in zip(sums, freedom, strict=True)]
    return _split(mean, S, items, squares, freedom)


def _split(
    mean: float, S: int, items: int, squares: list[float], freedom: tuple[int, int, int]
) -> TwoLucks:
    a, b, e = (square / (S * items) for square in squares)
    if a == e == 0.0:  # the same in every seed: nothing is known of the next one
        nothing = Estimate(S, mean)
        return TwoLucks(nothing, nothing, 0.0, b, 0.0)
    variance = max(a + b - e, a, b)
    spent = sum(part**2 / df for part, df in zip((a, b, e), freedom, strict=True))
    df = variance**2 / spent if spent > 0 else math.nan
    both = Estimate(S, mean, math.sqrt(variance) or math.nan, df)
    same = Estimate(S, mean, math.sqrt(a) or math.nan, freedom[0])
    return TwoLucks(both, same, max(0.0, a - e), max(0.0, b - e), e)


def _linearised(
    d_SI: NDArray[np.float64],
    sizes_I: NDArray[np.float64],
) -> NDArray[np.float64]:
    if sizes_I.shape != d_SI.shape[1:] or not (sizes_I >= 0).all() or not sizes_I.sum() > 0:
        raise ValueError("every item has a size, 0 or more, and one of them is positive")
    rate = float(d_SI.sum(axis=1).mean() / sizes_I.sum())
    return rate + (d_SI - rate * sizes_I) / sizes_I.mean()
