"""Exact tests of order, with seeds that never arrive."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

steps = st.one_of(st.integers(1, 12).map(float), st.just(math.inf))
pairs = st.lists(st.tuples(steps, steps), min_size=1, max_size=8)


def signed_rank_by_enumeration(variant: list[float], control: list[float]) -> tuple[float, float]:
    """Every sign of every pair that differs, each as likely as the others."""
    sizes, later = [], []
    for v, c in zip(variant, control, strict=True):
        if v != c:
            sizes.append(abs(v - c))
            later.append(v > c)
    ranks = [
        sum(other < size for other in sizes) + (sum(other == size for other in sizes) + 1) / 2
        for size in sizes
    ]
    seen = sum(rank for rank, sign in zip(ranks, later, strict=True) if sign)
    sums = [
        sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign)
        for signs in product([False, True], repeat=len(ranks))
    ]
    return float(np.mean([s >= seen for s in sums])), float(np.mean([s <= seen for s in sums]))


def test_two_seeds_that_never_arrive_are_the_latest_of_all_by_hand() -> None:
    # Differences +∞, +∞, −1, equal: ranks 2.5, 2.5, 1. W = 5 or more: 2 of 8 sign patterns.
    found = stats.signed_rank([math.inf, math.inf, 4, math.inf], [9, 2, 5, math.inf])
    assert (found.n, found.untied) == (4, 3)
    assert found.tails.more == pytest.approx(2 / 8)
    assert found.tails.less == pytest.approx(7 / 8)


@given(pairs)
def test_signed_ranks_are_those_of_an_enumeration(values: list[tuple[float, float]]) -> None:
    variant, control = map(list, zip(*values, strict=True))
    found = stats.signed_rank(variant, control).tails
    assert (found.more, found.less) == pytest.approx(signed_rank_by_enumeration(variant, control))


@pytest.mark.parametrize("n", [3, 5, 8, 10])
def test_without_ties_signed_ranks_are_scipys(n: int) -> None:
    draw = np.random.default_rng(n)
    variant, control = draw.normal(0.5, 1, n), draw.normal(0, 1, n)
    found = stats.signed_rank(variant, control)
    for tail, side in ((found.tails.more, "greater"), (found.tails.less, "less")):
        reference = scipy_stats.wilcoxon(variant, control, alternative=side, method="exact")
        assert tail == pytest.approx(reference.pvalue)


@given(pairs)
def test_the_sign_test_is_scipys_binomial_test(values: list[tuple[float, float]]) -> None:
    variant, control = map(list, zip(*values, strict=True))
    later = sum(v > c for v, c in values)
    untied = sum(v != c for v, c in values)
    found = stats.sign_test(variant, control)
    assert found.untied == untied
    if untied:
        reference = scipy_stats.binomtest(later, untied, alternative="greater").pvalue
        assert found.tails.more == pytest.approx(reference)
    else:
        assert found.tails == stats.Tails(1.0, 1.0)


@pytest.mark.parametrize("test", [stats.sign_test, stats.signed_rank])
@given(values=pairs, draw=st.randoms(use_true_random=False))
def test_neither_order_nor_name_of_an_arm_matters_to_ranks(
    test: object, values: list[tuple[float, float]], draw: object
) -> None:
    variant, control = map(list, zip(*values, strict=True))
    found = test(variant, control)  # type: ignore[operator]
    assert test(control, variant).tails == found.tails.swapped  # type: ignore[operator]
    shuffled = [*values]
    draw.shuffle(shuffled)  # type: ignore[attr-defined]
    assert test(*map(list, zip(*shuffled, strict=True))) == found  # type: ignore[operator]


@given(pairs, st.floats(0.5, 4))
def test_the_unit_of_a_step_does_not_matter(
    values: list[tuple[float, float]], factor: float
) -> None:
    factor = 2.0 ** round(math.log2(factor))  # exact, so that ties stay ties
    variant, control = (np.array(side) for side in zip(*values, strict=True))
    assert stats.signed_rank(factor * variant, factor * control) == stats.signed_rank(
        variant, control
    )


def test_five_seeds_cannot_pass_one_in_thirty_two() -> None:
    late, early = [math.inf] * 5, [10.0, 20.0, 30.0, 40.0, 50.0]
    assert stats.sign_test(late, early).tails.more == pytest.approx(1 / 32)
    assert stats.signed_rank(late, early).tails.more == pytest.approx(1 / 32)


def test_a_missing_number_of_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="never arrived takes inf"):
        stats.sign_test([1.0, math.nan], [1.0, 2.0])
