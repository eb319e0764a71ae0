"""Crossings: shown, open, or not shown."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import stats

LEVELS = [1, 2, 4, 8]
WOBBLE_S1 = np.array([[-1.0], [0.0], [1.0]])


def seeds(means: list[float], sd: float = 0.01) -> np.ndarray:
    """Three seeds with these means at every level and exactly this sd."""
    return np.array(means) + sd * WOBBLE_S1


def test_a_crossing_by_hand() -> None:
    # Bands −1 ± h and 1 ± h with h = t(2) at 1 − .05/4 · sd / √3; zero edges at (1 ± h) / 2.
    found = stats.crossing([1, 2], seeds([-1.0, 1.0], 0.1))
    half = 6.2053 * 0.1 / math.sqrt(3)
    assert found.shown
    assert found.at == pytest.approx(math.sqrt(2))
    assert found.low == pytest.approx(2 ** ((1 - half) / 2), rel=1e-4)
    assert found.high == pytest.approx(2 ** ((1 + half) / 2), rel=1e-4)


def test_a_mean_curve_that_meets_zero_on_a_level_crosses_there() -> None:
    assert stats.crossing(LEVELS, seeds([-1.0, 0.0, 1.0, 2.0])).at == pytest.approx(2.0)


def test_levels_that_cannot_tell_widen_the_crossing() -> None:
    # Sure at 1 and at 8, and anything in between: edges of straight pieces of the band.
    values = seeds([-1.0, 0.0, 0.0, 1.0], 0.1)
    found = stats.crossing(LEVELS, values)
    assert found.changes == 1
    assert 1 < found.low < 2
    assert 4 < found.high < 8
    assert math.isnan(found.at), "a mean curve that lies on zero crosses nowhere in particular"


@pytest.mark.parametrize(
    ("means", "changes", "low", "high"),
    [
        ([-1.0, -1.0, -1.0, 0.0], 0, (4, 8), (math.inf, math.inf)),  # perhaps beyond
        ([0.0, -1.0, -1.0, -1.0], 0, (0, 0), (1, 2)),  # perhaps before
        ([0.0, 0.0, 0.0, 0.0], 0, (0, 0), (math.inf, math.inf)),  # anywhere
        ([-1.0, 0.0, 0.0, -1.0], 0, (1, 2), (4, 8)),  # there and back, or never
        ([-1.0, 1.0, 1.0, 1.0], 1, (1, 2), (1, 2)),
        ([-1.0, 1.0, -1.0, -1.0], 2, (1, 2), (2, 4)),  # two, and both lie in between
    ],
)
def test_where_a_crossing_can_be(
    means: list[float], changes: int, low: tuple[float, float], high: tuple[float, float]
) -> None:
    found = stats.crossing(LEVELS, seeds(means))
    assert found.changes == changes
    assert low[0] <= found.low <= low[1]
    assert high[0] <= found.high <= high[1]


def test_no_crossing_is_shown_where_every_level_rules_it_out() -> None:
    found = stats.crossing(LEVELS, seeds([-1.0, -2.0, -2.0, -1.0]))
    assert not found.shown
    assert math.isnan(found.low)
    assert math.isnan(found.at)


def test_a_level_without_spread_rules_nothing_out_unless_a_resolution_is_registered() -> None:
    values = seeds([-1.0, 1.0, 1.0, 1.0])
    values[:, 0] = -1.0
    assert not stats.crossing(LEVELS, values).shown
    assert stats.crossing(LEVELS, values, resolution=0.01).shown


def test_beside_a_level_without_a_band_the_crossing_reaches_to_the_level_that_is_sure() -> None:
    values = seeds([-1.0, -1.0, 1.0, 1.0])
    values[:, 1] = -1.0
    found = stats.crossing(LEVELS, values)
    assert found.shown
    assert (found.low, found.high) == pytest.approx((1.0, 4.0))


curves = st.lists(
    st.lists(st.floats(-2, 2).map(lambda x: round(x, 3)), min_size=4, max_size=4),
    min_size=3,
    max_size=6,
).map(np.array)


@given(curves, st.floats(0.1, 10), st.floats(0.1, 10))
def test_units_of_the_factor_and_of_the_difference_do_not_matter(
    values: np.ndarray, unit: float, scale: float
) -> None:
    before = stats.crossing(LEVELS, values)
    after = stats.crossing(unit * np.array(LEVELS), scale * values)
    assert after.changes == before.changes
    assert after.low == pytest.approx(unit * before.low, rel=1e-5, nan_ok=True)
    assert after.high == pytest.approx(unit * before.high, rel=1e-5, nan_ok=True)


@given(curves)
def test_swapping_the_arms_or_reading_from_the_other_end_is_the_same_crossing(
    values: np.ndarray,
) -> None:
    found = stats.crossing(LEVELS, values)
    swapped = stats.crossing(LEVELS, -values)
    assert (swapped.changes, swapped.low, swapped.high) == pytest.approx(
        (found.changes, found.low, found.high), nan_ok=True
    )
    back = stats.crossing([1 / level for level in LEVELS[::-1]], values[:, ::-1])
    assert back.changes == found.changes
    if found.shown:
        assert (1 / back.high, 1 / back.low) == pytest.approx((found.low, found.high), rel=1e-6)


@given(curves)
def test_a_higher_level_shows_no_more_crossings(values: np.ndarray) -> None:
    assert (
        stats.crossing(LEVELS, values, 0.99).changes <= stats.crossing(LEVELS, values, 0.8).changes
    )


@pytest.mark.parametrize(
    ("levels", "message"), [([1], "are not seeds by"), ([2, 1], "rising"), ([0, 1], "positive")]
)
def test_a_factor_needs_rising_positive_levels(levels: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stats.crossing(levels, np.ones((3, len(levels))))
