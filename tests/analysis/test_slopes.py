"""Slopes, exponents and interactions: one a seed, then the seeds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

SIZES = [64, 128, 256, 512]
curves = st.lists(st.lists(st.floats(0.1, 10), min_size=4, max_size=4), min_size=2, max_size=6).map(
    np.array
)


def test_an_exponent_by_hand() -> None:
    # Two sizes, a doubling: the slopes are log₂ of the ratios, 1, 2 and 3.
    found = stats.exponent([1, 2], [[1, 2], [1, 4], [1, 8]])
    assert found.value == pytest.approx(2.0)
    assert found.error == pytest.approx(1 / math.sqrt(3))
    assert (found.n, found.df) == (3, 2)


@given(curves)
def test_the_slope_of_each_seed_is_scipys(values_SL: np.ndarray) -> None:
    slopes = stats.seed_slopes(np.log(SIZES), np.log(values_SL))
    for slope, row in zip(slopes, values_SL, strict=True):
        reference = scipy_stats.linregress(np.log(SIZES), np.log(row)).slope
        assert slope == pytest.approx(reference, abs=1e-9)


@given(curves, st.floats(-2, 3), st.floats(0.1, 10))
def test_a_power_law_adds_its_exponent_and_units_add_nothing(
    values_SL: np.ndarray, power: float, unit: float
) -> None:
    before = stats.exponent(SIZES, values_SL)
    after = stats.exponent(unit * np.array(SIZES), unit * values_SL * np.array(SIZES) ** power)
    assert after.value == pytest.approx(before.value + power, abs=1e-9)


@given(curves)
def test_neither_the_order_of_seeds_nor_that_of_levels_matters(values_SL: np.ndarray) -> None:
    before = stats.exponent(SIZES, values_SL)
    after = stats.exponent(SIZES[::-1], values_SL[::-1, ::-1])
    assert after.value == pytest.approx(before.value, abs=1e-9)


def test_the_interval_counts_seeds_and_not_points() -> None:
    draw = np.random.default_rng(0)
    slopes = draw.normal(2.0, 0.3, 5)
    values_SL = 3.0 * np.array(SIZES) ** slopes[:, None]  # straight, but each seed its own
    found = stats.exponent(SIZES, values_SL)
    assert found.ends() == pytest.approx(stats.mean_of(slopes).ends())
    assert found.df == 4


def test_an_exact_power_law_has_no_spread_but_for_rounding() -> None:
    found = stats.exponent(SIZES, np.tile(7.0 * np.array(SIZES) ** 2.0, (3, 1)) * [[1], [3], [7]])
    assert found.value == pytest.approx(2.0)
    assert math.isnan(found.error)


def test_rounding_of_large_counts_is_no_spread_of_an_exponent() -> None:
    factors = np.array([[1e12], [3e12], [7e12], [1.1e13], [1.3e13]])
    counts = factors * np.array(SIZES) ** 2.0
    assert np.std(stats.seed_slopes(np.log(SIZES[:2]), np.log(counts[:, :2]))) > 0
    for found in (stats.exponent(SIZES, counts), *stats.local_exponents(SIZES, counts)):
        assert found.value == pytest.approx(2.0)
        assert math.isnan(found.error)


def test_local_exponents_show_where_a_law_bends() -> None:
    bend_L = np.where(np.array(SIZES) <= 128, np.array(SIZES), np.array(SIZES) ** 2 / 128)
    wobble_S = np.array([[0.9], [1.0], [1.1]])
    found = stats.local_exponents(SIZES, wobble_S * bend_L)
    assert [one.value for one in found] == pytest.approx([1.0, 2.0, 2.0])


def test_growth_is_per_doubling() -> None:
    # The gap is 0, 1, 2, 3 over three doublings, and twice that in the other seed.
    found = stats.growth(SIZES, [[0, 1, 2, 3], [0, 2, 4, 6]])
    assert found.value == pytest.approx(1.5)
    assert found.error == pytest.approx(0.5)


def test_an_interaction_is_a_difference_of_differences() -> None:
    here, control = [1.0, 1.2, 0.9], [0.8, 0.9, 0.8]
    there, control_there = [2.0, 2.4, 1.9], [0.9, 1.0, 0.8]
    found = stats.interaction(here, control, there, control_there)
    by_hand = [1.1 - 0.2, 1.4 - 0.3, 1.1 - 0.1]
    assert found.ends() == pytest.approx(stats.mean_of(by_hand).ends())
    along = stats.growth([1, 2], np.array([[0.2, 1.1], [0.3, 1.4], [0.1, 1.1]]))
    assert along.ends() == pytest.approx(found.ends()), "one doubling is one interaction"


def test_a_shift_of_all_arms_of_a_seed_is_no_interaction() -> None:
    luck = np.array([0.1, -0.3, 0.2])
    found = stats.interaction(1 + luck, luck, 3 + luck, 2 + luck)
    assert found.value == pytest.approx(0.0)
    assert math.isnan(found.error), "the rounding of equal differences is no spread"


@pytest.mark.parametrize(
    ("levels", "values"),
    [([1], [[1.0]]), ([1, 2], [1.0, 2.0]), ([1, 1], [[1.0, 2.0]]), ([1, 2, 3], [[1.0, 2.0]])],
)
def test_what_is_no_curve_is_refused(levels: list[float], values: list[object]) -> None:
    with pytest.raises(ValueError, match=r"levels, two or more|stands twice"):
        stats.exponent(levels, values)


@pytest.mark.parametrize(("levels", "values"), [([0, 1], [[1, 2]]), ([1, 2], [[0, 2]])])
def test_what_has_no_logarithm_is_refused(levels: list[float], values: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="no logarithm"):
        stats.exponent(levels, values)
