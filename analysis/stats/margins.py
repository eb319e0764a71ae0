"""Predictions with a margin: better, worse, not worse or equal by a size that matters.

Each gives two p-values. Of a prediction and its opposite only one is false, so each may be tried
at the whole level: the chance of a wrong word, either way, is at most alpha.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from analysis.stats.estimate import ALPHA, Estimate, Tails
from analysis.stats.items import TwoLucks

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"


@dataclass(frozen=True)
class Tested:
    """P-values of a prediction: against its being false, and against its being true."""

    supports: float = math.nan
    refutes: float = math.nan

    @property
    def p(self) -> float:
        """The smaller one; NaN where nothing is known."""
        return self.supports if self.supports <= self.refutes else self.refutes

    def word(self, p: float | None = None, alpha: float = ALPHA) -> str:
        """Supported, refuted or undecided; `p` is the smaller one after any correction."""
        corrected = self.p if p is None else p
        if not corrected < alpha:
            return UNDECIDED
        return SUPPORTED if self.supports <= self.refutes else REFUTED


def directed(tails: Tails, better: str) -> Tested:
    """`The variant is better`, from tails of variant − control."""
    if better not in ("lower", "higher"):
        raise ValueError(f"better is 'lower' or 'higher', not {better!r}")
    return Tested(tails.less, tails.more) if better == "lower" else Tested(tails.more, tails.less)


def better_by(difference: Estimate | TwoLucks, margin: float, better: str) -> Tested:
    """Better by at least the margin: the gain's one-sided t-test against it."""
    gain = difference.mirrored if better == "lower" else difference
    return directed(gain.tails(_checked(margin)), "higher")


def worse_by(difference: Estimate | TwoLucks, margin: float, better: str) -> Tested:
    """Worse by at least the margin: better by it with the sides swapped."""
    return better_by(difference.mirrored, margin, better)


def not_worse_by(difference: Estimate | TwoLucks, margin: float, better: str) -> Tested:
    """Non-inferior: whatever is lost is less than the margin."""
    found = worse_by(difference, margin, better)
    return Tested(found.refutes, found.supports)


def equal_within(difference: Estimate | TwoLucks, margin: float) -> Tested:
    """Equivalent: the interval at level 1 − 2·alpha lies inside ±margin (Schuirmann 1987).

    supports = max of the two one-sided p-values; refutes doubles the smaller of the opposite two,
    for at a small margin both ends can be passed.
    """
    above_low = difference.tails(-_checked(margin))
    below_high = difference.tails(margin)
    outside = Tails(below_high.more, above_low.less)
    if math.isnan(outside.more):
        return Tested()
    return Tested(max(above_low.more, below_high.less), outside.two_sided)


def _checked(margin: float) -> float:
    if not 0 <= margin < math.inf:
        raise ValueError(f"a margin is a size, 0 or more, not {margin}")
    return margin
