"""Which arm needs more steps, when some seeds never arrive: exact tests of order alone.

A seed that never reached the threshold takes `inf` steps: later than any that did, and as late as
any other that did not. Were the arms alike, either side of a pair could be the larger: that alone
is supposed, so every sign pattern of the differences is equally likely.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from analysis.stats.estimate import Tails, Values


@dataclass(frozen=True)
class Ranked:
    """Pairs, those that tell the arms apart, and the tails of `the variant takes more steps`."""

    n: int
    untied: int
    tails: Tails


def sign_test(variant: Values, control: Values) -> Ranked:
    """How often the variant is the later one: P(X ≥ k), X ~ Binomial(untied, ½) (Dixon 1946).

    Needs no size of a difference, so it holds where one arm is skewed and the other is not, for
    the claim that either is the later one equally often.
    """
    difference = later_by(variant, control)
    later, earlier = int((difference > 0).sum()), int((difference < 0).sum())
    n = later + earlier
    more = float(special.bdtrc(later - 1, n, 0.5)) if later else 1.0
    less = float(special.bdtrc(earlier - 1, n, 0.5)) if earlier else 1.0
    return Ranked(difference.size, n, Tails(more, less))


def signed_rank(variant: Values, control: Values) -> Ranked:
    """The sum of ranks of |difference| where the variant is later (Wilcoxon 1945), exact with ties.

    Equal pairs are left out, equal sizes share their mean rank. Five seeds cannot pass 1/32 on one
    side. Hand it logarithms where ratios are meant.
    """
    difference = later_by(variant, control)
    untied = difference[difference != 0]
    doubled = np.rint(2 * stats.rankdata(np.abs(untied))).astype(int)  # mean ranks are halves
    ways = np.zeros(int(doubled.sum()) + 1)
    ways[0] = 1.0
    for rank in doubled:
        moved = np.zeros_like(ways)
        moved[rank:] = ways[: ways.size - rank]
        ways = (ways + moved) / 2
    seen = int(doubled[untied > 0].sum())
    tails = Tails(float(min(1.0, ways[seen:].sum())), float(min(1.0, ways[: seen + 1].sum())))
    return Ranked(difference.size, untied.size, tails)


def later_by(variant: Values, control: Values) -> NDArray[np.float64]:
    """Variant − control, where two that never arrived are equal."""
    v, c = np.asarray(variant, dtype=np.float64), np.asarray(control, dtype=np.float64)
    assert v.shape == c.shape, "pairs need two sides of equal length"
    if np.isnan(v).any() or np.isnan(c).any():
        raise ValueError("a number of steps is missing: a seed that never arrived takes inf")
    same = v == c
    return np.where(same, 0.0, np.where(same, 0.0, v) - np.where(same, 0.0, c))
