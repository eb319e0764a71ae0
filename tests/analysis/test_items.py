"""Seeds' luck and items' luck, told apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import stats

tables = st.tuples(st.integers(2, 5), st.integers(2, 6), st.integers(0, 10_000)).map(
    lambda drawn: np.random.default_rng(drawn[2]).normal(size=drawn[:2])
)


def test_a_table_of_two_seeds_and_three_items_by_hand() -> None:
    # Rows (1, 2, 3) and (3, 6, 9): seeds' means 2 and 6, items' 2, 4, 6, mean 4.
    # Sums of squares: seeds 3·(4 + 4) = 24, items 2·(4 + 0 + 4) = 16, rest 1 + 0 + 1 + 1 + 0 + 1.
    # Mean squares over df 1, 2, 2: 24, 8, 2. Variance of the mean: (24 + 8 − 2) / 6 = 5.
    found = stats.two_lucks([[1, 2, 3], [3, 6, 9]])
    assert found.both.value == 4.0
    assert found.both.error**2 == pytest.approx(5.0)
    assert found.both.df == pytest.approx(25 / (16 / 1 + (8 / 6) ** 2 / 2 + (2 / 6) ** 2 / 2))
    assert found.seeds == pytest.approx((24 - 2) / 6)
    assert found.items == pytest.approx((8 - 2) / 6)
    assert found.rest == pytest.approx(2 / 6)
    assert found.both.error**2 == pytest.approx(found.seeds + found.items + found.rest)


@given(tables)
def test_on_the_same_items_it_is_the_paired_t_over_seeds(d: np.ndarray) -> None:
    found = stats.two_lucks(d).same_items
    expected = stats.mean_of(d.mean(axis=1))
    assert found.ends() == pytest.approx(expected.ends(), rel=1e-6)


@given(tables, st.floats(-5, 5), st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_two_lucks_move_and_stretch_with_the_values_whatever_their_order(
    d: np.ndarray, shift: float, factor: float, draw: object
) -> None:
    before = stats.two_lucks(d)
    rows, columns = list(range(d.shape[0])), list(range(d.shape[1]))
    draw.shuffle(rows)  # type: ignore[attr-defined]
    draw.shuffle(columns)  # type: ignore[attr-defined]
    after = stats.two_lucks(factor * d[rows][:, columns] + shift)
    expected = [factor * end + shift for end in before.ends()]
    assert after.ends() == pytest.approx(expected, rel=1e-5, abs=1e-6)
    assert after.items == pytest.approx(factor**2 * before.items, rel=1e-5, abs=1e-9)


@given(tables, st.floats(-2, 2))
def test_ends_and_tails_agree_and_new_items_never_narrow_them(d: np.ndarray, null: float) -> None:
    found = stats.two_lucks(d)
    low, high = found.ends(0.9)
    same_low, same_high = found.same_items.ends(0.9)
    assert low <= same_low
    assert high >= same_high
    if min(abs(null - low), abs(null - high)) > 1e-6:
        assert (found.tails(null).more < 0.05) == (null < low)
        assert (found.tails(null).less < 0.05) == (null > high)


def test_luck_of_items_alone_stays_however_many_seeds_there_are() -> None:
    draw = np.random.default_rng(0)
    item_I = draw.normal(size=100)
    few, many = (
        stats.two_lucks(item_I + 0.1 * draw.normal(size=(seeds, 100))) for seeds in (3, 300)
    )
    assert few.items == pytest.approx(many.items, rel=0.1)
    assert many.both.error == pytest.approx(item_I.std(ddof=1) / 10, rel=0.02)
    assert many.same_items.error < many.both.error / 10


def test_items_of_one_size_are_items_without_sizes() -> None:
    d = np.random.default_rng(1).normal(size=(4, 6))
    plain, sized = stats.two_lucks(d), stats.two_lucks(3 * d, sizes_I=np.full(6, 3.0))
    assert sized.ends() == pytest.approx(plain.ends())


def test_with_sizes_the_mean_is_the_rate_over_all_items_by_hand() -> None:
    # Errors (4, 1) and (3, 1) on items of 4 and 2 tokens: 9 / (2 · 6) = ¾ an error per token.
    found = stats.two_lucks([[4, 1], [3, 1]], sizes_I=[4, 2])
    assert found.both.value == pytest.approx(0.75)
    # ¾ + (d − ¾ size) / 3, the mean size: rows (13/12, 7/12) and (9/12, 7/12).
    expected = stats.two_lucks([[13 / 12, 7 / 12], [9 / 12, 7 / 12]])
    assert found.items > 0
    assert found.items == pytest.approx(expected.items)
    assert found.rest == pytest.approx(expected.rest)
    assert found.ends() == pytest.approx(expected.ends())


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 0)])
def test_one_seed_or_one_item_says_nothing_of_luck(shape: tuple[int, int]) -> None:
    found = stats.two_lucks(np.ones(shape))
    assert all(math.isnan(end) for end in found.ends())
    assert math.isnan(found.tails().more)


def test_seeds_that_agree_on_every_item_say_nothing_of_the_next() -> None:
    found = stats.two_lucks(np.tile([0.0, 1.0, 0.0], (5, 1)))
    assert found.both.value == pytest.approx(1 / 3)
    assert math.isnan(found.ends()[0])
    assert found.items == pytest.approx((1 / 3) / 3)


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not seeds by items"):
        stats.two_lucks([1.0, 2.0])
    with pytest.raises(ValueError, match="every item has a size"):
        stats.two_lucks(np.ones((2, 3)), sizes_I=[1.0, 2.0])
