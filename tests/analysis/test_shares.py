"""Shares of seeds: exact tests of two arms and of one, enumerated where a formula is short."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

counts = st.integers(1, 10).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def test_all_against_none_decides_a_basin_though_nothing_spreads() -> None:
    # Worst case ½ in both arms: ½⁵ · ½⁵.
    found = stats.boschloo(5, 5, 0, 5)
    assert found.more == pytest.approx(2**-10)
    assert stats.directed(found, "higher").word() == stats.SUPPORTED
    assert math.isnan(stats.paired_mean([1.0] * 5, [0.0] * 5).p()), "the t-test cannot tell"


def test_three_against_none_by_hand() -> None:
    # Fisher: 1 of the 20 ways to place three hits among six seeds. Boschloo: ½⁶.
    assert stats.fisher(3, 3, 0, 3).more == pytest.approx(1 / 20)
    assert stats.fisher(3, 3, 0, 3).two_sided == pytest.approx(0.1)
    assert stats.boschloo(3, 3, 0, 3).more == pytest.approx(2**-6)


@given(counts, counts)
def test_fishers_tails_are_scipys(one: tuple[int, int], other: tuple[int, int]) -> None:
    found = stats.fisher(*one, *other)
    table = [[one[0], one[1] - one[0]], [other[0], other[1] - other[0]]]
    for tail, side in ((found.more, "greater"), (found.less, "less")):
        assert tail == pytest.approx(scipy_stats.fisher_exact(table, alternative=side).pvalue)


@pytest.mark.parametrize(
    ("one", "other"), [((5, 5), (2, 5)), ((9, 10), (5, 10)), ((4, 5), (3, 10)), ((1, 3), (2, 3))]
)
def test_boschloos_tails_are_scipys(one: tuple[int, int], other: tuple[int, int]) -> None:
    table = [[one[0], other[0]], [one[1] - one[0], other[1] - other[0]]]
    found = stats.boschloo(*one, *other)
    for tail, side in ((found.more, "greater"), (found.less, "less")):
        reference = scipy_stats.boschloo_exact(table, alternative=side)
        assert tail == pytest.approx(reference.pvalue, abs=1e-4)


@given(counts, counts)
def test_boschloo_is_never_weaker_than_fisher(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert stats.boschloo(*one, *other).more <= stats.fisher(*one, *other).more + 1e-9


@given(st.integers(0, 9), st.integers(0, 10))
def test_more_hits_are_more_evidence(hits: int, control: int) -> None:
    assert (
        stats.boschloo(hits + 1, 10, control, 10).more
        <= stats.boschloo(hits, 10, control, 10).more + 1e-12
    )


@given(counts, counts)
def test_swapping_the_arms_swaps_the_tails(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert stats.boschloo(*one, *other) == stats.boschloo(*other, *one).swapped


def pairs_chances(n: int, p11: float, p10: float, p01: float) -> np.ndarray:
    """Chance of (hits, control hits) over n seeds whose two arms may depend on each other."""
    chance = np.zeros((n + 1, n + 1))
    chance[0, 0] = 1.0
    for _ in range(n):
        step = chance * (1 - p11 - p10 - p01)
        step[1:, 1:] += chance[:-1, :-1] * p11
        step[1:, :] += chance[:-1, :] * p10
        step[:, 1:] += chance[:, :-1] * p01
        chance = step
    return chance


@pytest.mark.parametrize("n", [3, 5, 10])
def test_boschloo_holds_for_pairs_that_share_their_luck(n: int) -> None:
    table = np.array(
        [[stats.boschloo(v, n, c, n).more for c in range(n + 1)] for v in range(n + 1)]
    )
    for share, luck in product(np.linspace(0.02, 0.98, 33), np.linspace(0, 1, 7)):
        apart = share * (1 - share) * luck  # 1: the arms are independent, 0: always alike
        chance = pairs_chances(n, share - apart, apart, apart)
        for p in np.unique(table[table < 0.5]):
            assert chance[table <= p].sum() <= p + 1e-6


def test_pairs_whose_luck_opposes_break_boschloo_and_not_mcnemar() -> None:
    # Always exactly one of the two arms hits, either with the same chance.
    n, chance = 5, pairs_chances(5, 0.0, 0.5, 0.5)
    p = stats.boschloo(5, n, 0, n).more
    assert chance[5, 0] == pytest.approx(1 / 32)
    assert p < 1 / 32
    assert stats.mcnemar([True] * 5, [False] * 5).more == pytest.approx(1 / 32)


def test_clopper_and_pearson_by_hand() -> None:
    # All five: low⁵ = 2.5 %. None of five: the mirror image.
    assert stats.share_ends(5, 5) == (pytest.approx(0.025**0.2), 1.0)
    assert stats.share_ends(0, 5) == (0.0, pytest.approx(1 - 0.025**0.2))


@given(counts, st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_and_pearson_are_scipys(count: tuple[int, int], level: float) -> None:
    reference = scipy_stats.binomtest(*count).proportion_ci(level)
    ends = stats.share_ends(*count, level)
    assert ends == pytest.approx((reference.low, reference.high), abs=1e-6)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_clopper_and_pearson_cover_every_share(n: int) -> None:
    ends = np.array([stats.share_ends(hits, n) for hits in range(n + 1)])
    for share in np.linspace(0, 1, 201):
        covered = (ends[:, 0] <= share) & (share <= ends[:, 1])
        assert scipy_stats.binom.pmf(np.arange(n + 1), n, share)[covered].sum() >= 0.95 - 1e-12


@given(counts, st.floats(0.01, 0.99))
def test_one_arm_against_a_fixed_share_is_scipys_binomial_test(
    count: tuple[int, int], share: float
) -> None:
    found = stats.share_tails(*count, share)
    for tail, side in ((found.more, "greater"), (found.less, "less")):
        reference = scipy_stats.binomtest(*count, share, alternative=side).pvalue
        assert tail == pytest.approx(reference, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize(("hits", "n"), [(6, 5), (-1, 5), (0, 0)])
def test_impossible_counts_are_refused(hits: int, n: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        stats.share_ends(hits, n)
    with pytest.raises(ValueError, match="no share"):
        stats.boschloo(hits, n, 0, 5)
