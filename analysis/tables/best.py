"""Which arms of a question are best, and which cannot be told from the best.

The best is chosen by the very scores that then test it, so that Holm goes over all pairs of arms,
not only over those with the best: with equal arms, one is called worse in at most 5 % of tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from ablations.store.record import TRAINED
from analysis import stats
from analysis.arms import Arm, arms
from analysis.load import Loaded
from analysis.tables.cells import BEST, TIED

Place = tuple[str, str]
"""A label and its crossing."""


def standings(loaded: Loaded, ablation: str) -> dict[Place, str]:
    """The arms that are best, or tied with the best, of their crossing.

    Models that nobody has trained are not ranked: what is read off first weights has no winner.
    """
    entry = loaded.ablations[ablation]
    everyone = arms(loaded, ablation)
    found: dict[Place, str] = {}
    for across in dict.fromkeys(arm.across for arm in everyone):
        mine = [arm for arm in everyone if arm.across == across]
        if any(arm.label == entry["control"] and arm.ended("stuck") for arm in mine):
            continue  # undertrained: nothing here is good
        found |= _ranked(mine, entry["metric"]["better"])
    return found


def _ranked(mine: Sequence[Arm], better: str) -> dict[Place, str]:
    able = [arm for arm in mine if _is_able(arm)]
    if len(able) < 2 or len({arm.unit for arm in able}) > 1:
        return {}
    sign = 1 if better == "higher" else -1
    best = max(able, key=lambda arm: sign * sum(arm.scores.values()) / len(arm.scores))
    pairs = list(combinations(able, 2))
    differences = [_difference(*pair) for pair in pairs]
    adjusted = stats.holm([difference.p for difference in differences])
    found = {(best.label, best.across): BEST}
    for pair, difference, p in zip(pairs, differences, adjusted, strict=True):
        if best in pair and difference.n >= stats.LEAST and not p < stats.ALPHA:
            other = pair[0] if pair[1] is best else pair[1]
            found[other.label, other.across] = TIED
    return found


def _is_able(arm: Arm) -> bool:
    """Whether it has enough scores, and lost none to seeds that broke down."""
    return arm.trained and len(arm.scores) >= stats.LEAST and not arm.ended(*TRAINED[1:])


def _difference(one: Arm, other: Arm) -> stats.Difference:
    seeds = [seed for seed in one.scores if seed in other.scores]
    return stats.paired([one.scores[s] for s in seeds], [other.scores[s] for s in seeds])
