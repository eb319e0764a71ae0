"""Looking at few seeds first, without paying for it in false verdicts.

At look k the first n_k planned seeds are tested, at a share w_k of the level: Σ w_k = 1, and

    p = min_k p_k / w_k

is a p-value whatever the looks share (a weighted Bonferroni, Holm 1979). Its running minimum only
falls, so that the first decision stands. A look takes a prefix of the planned seeds and no others:
seeds that happen to be stored beyond it change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.store.seeds import LOOKS
from analysis.stats.estimate import ALPHA
from analysis.stats.families import holm
from analysis.stats.margins import UNDECIDED, Tested


@dataclass(frozen=True)
class Looks:
    """How many seeds each look takes, and its share of the level."""

    seeds: tuple[int, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.seeds) != len(self.weights) or not self.seeds:
            raise ValueError("every look has a number of seeds and a weight")
        if list(self.seeds) != sorted(set(self.seeds)) or self.seeds[0] < 1:
            raise ValueError(f"looks take more and more seeds, not {self.seeds}")
        if min(self.weights) <= 0 or not math.isclose(sum(self.weights), 1.0):
            raise ValueError(f"weights of looks are positive and sum to 1, not {self.weights}")

    def level(self, look: int, alpha: float = ALPHA) -> float:
        """Of the interval that is shown at this look: all of them hold together."""
        return 1 - alpha * self.weights[look]


# Effects of two standard deviations and more, which five seeds can show, cost little power at ten.
LEVEL_LOOKS = Looks(LOOKS, (0.1, 0.3, 0.6))
# Three seeds cannot decide a share. At five, .3 lets through 5 against 1 (p = .011).
BASIN_LOOKS = Looks((5, 10), (0.3, 0.7))


@dataclass(frozen=True)
class Planned:
    """A prediction's data in the planned order of seeds, its test, and when it is looked at.

    The first axis of `seeds` runs over seeds: (S, 2) for pairs, (S, 2, L) along a factor.
    """

    seeds: NDArray[Any]
    test: Callable[[NDArray[Any]], Tested]
    looks: Looks = LEVEL_LOOKS


@dataclass(frozen=True)
class Decision:
    """What was decided at which look; undecided, it says what the last look left."""

    word: str
    p: float  # after looks and family
    n: int  # seeds of the look that decided, or of the last one made
    look: int  # its number from 0; −1 before the first
    tested: tuple[Tested, ...] = field(default=())  # what each look made until then found


def decide(planned: Planned, alpha: float = ALPHA) -> Decision:
    """One prediction on its own."""
    return decide_family([planned], alpha)[0]


def decide_family(
    family: Sequence[Planned], alpha: float = ALPHA, declared: int | None = None
) -> list[Decision]:
    """Predictions of one question: after each look Holm over their p so far (Shaffer 1980).

    What is decided keeps its p: seeds beyond its look would otherwise move the others. `declared`
    counts predictions that have no data at all.
    """
    p_now = [math.nan] * len(family)
    tested: list[list[Tested]] = [[] for _ in family]
    decided: dict[int, Decision] = {}
    for seeds in sorted({n for planned in family for n in planned.looks.seeds}):
        for i, planned in enumerate(family):
            if i in decided or seeds not in planned.looks.seeds or len(planned.seeds) < seeds:
                continue
            found = planned.test(planned.seeds[:seeds])
            weight = planned.looks.weights[len(tested[i])]
            p_now[i] = float(np.fmin(p_now[i], min(1.0, found.p / weight)))
            tested[i].append(found)
        for i, p in enumerate(holm(p_now, declared)):
            if i not in decided and p < alpha:
                decided[i] = _decision(family[i].looks, tested[i], p)
    final = holm(p_now, declared)
    return [
        decided.get(i) or _left(planned.looks, tested[i], final[i])
        for i, planned in enumerate(family)
    ]


def _decision(looks: Looks, tested: list[Tested], p: float) -> Decision:
    """The word is that of the look with the smallest p / w, which need not be the last one."""
    shares = [found.p / weight for found, weight in zip(tested, looks.weights, strict=False)]
    look = int(np.nanargmin(shares))
    return Decision(tested[look].word(0.0), p, looks.seeds[look], look, tuple(tested))


def _left(looks: Looks, tested: list[Tested], p: float) -> Decision:
    last = len(tested) - 1
    n = looks.seeds[last] if tested else 0
    return Decision(UNDECIDED, p, n, last, tuple(tested))
