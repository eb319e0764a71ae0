"""Basins of paired arms: McNemar's test and the exact interval of a difference of shares."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

outcomes = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=10)


def test_all_against_none_by_hand() -> None:
    found = stats.basin([True] * 5, [False] * 5)
    assert (found.n, found.hits, found.control_hits, found.difference) == (5, 5, 0, 1.0)
    assert found.tails.more == pytest.approx(2**-10)
    # √p10 + √p01 ≤ 1 and p10⁵ = 2.5 %: p10 = .4782, √p01 = 1 − .6915, Δ = .4782 − .0952.
    assert found.low == pytest.approx(0.4782 - (1 - math.sqrt(0.4782)) ** 2, abs=1e-4)
    assert found.high == 1.0


def test_without_shared_luck_five_pairs_cannot_exclude_equality() -> None:
    # p10 + p01 ≤ 1 and p10⁵ = 2.5 %: Δ = 2 · .4782 − 1.
    low, high = stats.difference_ends(5, 5, shared_luck=False)
    assert (low, high) == (pytest.approx(2 * 0.025**0.2 - 1, abs=1e-6), 1.0)
    assert stats.difference_tails(5, 5, shared_luck=False).more == pytest.approx(1 / 32)


def test_equal_shares_that_share_luck_are_a_walk_of_half_steps() -> None:
    # At p10 = p01 = ¼ each step is a sum of two fair half steps: D + n ~ Binomial(2n, ½).
    for n, d in ((3, 2), (5, 3), (10, 4)):
        found = stats.difference_tails(d, n)
        assert found.more == pytest.approx(scipy_stats.binom.sf(n + d - 1, 2 * n, 0.5))


@given(outcomes)
def test_mcnemar_is_scipys_binomial_test_of_the_seeds_that_differ(
    pairs: list[tuple[bool, bool]],
) -> None:
    variant, control = map(list, zip(*pairs, strict=True))
    only = sum(v and not c for v, c in pairs), sum(c and not v for v, c in pairs)
    found = stats.mcnemar(variant, control)
    if sum(only) == 0:
        assert (found.more, found.less) == (1.0, 1.0)
        return
    for tail, side in ((found.more, "greater"), (found.less, "less")):
        reference = scipy_stats.binomtest(only[0], sum(only), alternative=side).pvalue
        assert tail == pytest.approx(reference)


@given(outcomes, st.randoms(use_true_random=False))
def test_neither_order_nor_name_of_an_arm_matters(
    pairs: list[tuple[bool, bool]], draw: object
) -> None:
    variant, control = map(list, zip(*pairs, strict=True))
    found, swapped = stats.basin(variant, control), stats.basin(control, variant)
    assert found.tails == swapped.tails.swapped
    assert (found.low, found.high) == (-swapped.high, -swapped.low)
    assert found.low <= found.difference <= found.high
    shuffled = [*pairs]
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert stats.basin(*map(list, zip(*shuffled, strict=True))) == found


@pytest.mark.parametrize("shared_luck", [True, False])
@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_interval_covers_every_difference_of_shares(n: int, shared_luck: bool) -> None:
    ends = {d: stats.difference_ends(d, n, shared_luck=shared_luck) for d in range(-n, n + 1)}
    low, high = np.array([ends[d] for d in range(-n, n + 1)]).T
    for p10, p01 in product(np.linspace(0, 1, 26), repeat=2):
        possible = math.sqrt(p10) + math.sqrt(p01) <= 1 if shared_luck else p10 + p01 <= 1
        if not possible:
            continue
        chance = np.ones(1)
        for _ in range(n):
            chance = np.convolve(chance, [p01, 1 - p10 - p01, p10])
        covered = (low <= p10 - p01 + 1e-9) & (p10 - p01 - 1e-9 <= high)
        assert chance[covered].sum() >= 0.95 - 1e-3


@given(st.integers(-4, 5), st.sampled_from([3, 5, 10]), st.floats(-0.9, 0.9))
def test_a_larger_difference_is_more_evidence_and_a_larger_null_is_less(
    d: int, n: int, null: float
) -> None:
    d = max(-n + 1, min(n, d))
    here = stats.difference_tails(d, n, null).more
    assert stats.difference_tails(d - 1, n, null).more >= here - 1e-9
    assert stats.difference_tails(d, n, null + 0.05).more >= here - 1e-3


def test_no_seed_is_no_share() -> None:
    assert math.isnan(stats.basin([], []).difference)
    assert math.isnan(stats.basin([], []).tails.more)
    with pytest.raises(ValueError, match="cannot differ"):
        stats.difference_tails(6, 5)
    with pytest.raises(ValueError, match="cannot differ"):
        stats.difference_ends(1, 0)
