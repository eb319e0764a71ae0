"""Estimates: their intervals and tests against scipy, by hand, and where nothing spreads."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

scores = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 4))
samples = st.lists(scores, min_size=2, max_size=8)
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


def test_the_mean_of_three_by_hand() -> None:
    # 1, 2, 6: mean 3, sd √((4 + 1 + 9) / 2) = √7, error √(7/3), t(2) at 97.5 % = 4.303.
    found = stats.mean_of([1.0, 2.0, 6.0])
    assert (found.n, found.value, found.df) == (3, 3.0, 2)
    assert found.error == pytest.approx(math.sqrt(7 / 3))
    half = 4.3027 * math.sqrt(7 / 3)
    assert found.ends() == pytest.approx((3 - half, 3 + half), rel=1e-4)


def test_welch_by_hand() -> None:
    # Sides 1, 3 (mean 2, s²/n = 1) and 0, 2, 4 (mean 2, s²/n = 4/3): df = (7/3)² / (1/1 + 8/9).
    found = stats.unpaired_mean([1.0, 3.0], [0.0, 2.0, 4.0])
    assert (found.n, found.value) == (2, 0.0)
    assert found.error == pytest.approx(math.sqrt(7 / 3))
    assert found.df == pytest.approx((49 / 9) / (17 / 9))


@given(samples, levels)
def test_the_mean_agrees_with_scipy_at_any_level(values: list[float], level: float) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    reference = scipy_stats.ttest_1samp(values, 1.5)
    ends = reference.confidence_interval(level)
    assert found.ends(level) == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-9)
    assert found.p(1.5) == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    more = scipy_stats.ttest_1samp(values, 1.5, alternative="greater").pvalue
    assert found.tails(1.5).more == pytest.approx(more, rel=1e-6, abs=1e-12)
    assert found.tails(1.5).less == pytest.approx(1 - more, rel=1e-6, abs=1e-12)


@given(samples, samples, levels)
def test_unpaired_means_agree_with_scipys_welch(
    variant: list[float], control: list[float], level: float
) -> None:
    assume(min(np.std(variant), np.std(control)) > 1e-3)
    found = stats.unpaired_mean(variant, control)
    reference = scipy_stats.ttest_ind(variant, control, equal_var=False)
    assert found.df == pytest.approx(reference.df, rel=1e-6)
    assert found.p() == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    ends = reference.confidence_interval(level)
    assert found.ends(level) == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-9)


@given(samples, scores, st.floats(0.1, 10), st.randoms(use_true_random=False))
def test_an_interval_moves_and_stretches_with_its_values_whatever_their_order(
    values: list[float], shift: float, factor: float, draw: object
) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    moved = [factor * value + shift for value in values]
    draw.shuffle(moved)  # type: ignore[attr-defined]
    ends = [factor * end + shift for end in found.ends()]
    assert stats.mean_of(moved).ends() == pytest.approx(ends, rel=1e-6, abs=1e-6)


@given(samples, scores)
def test_a_test_rejects_exactly_what_the_interval_leaves_out(
    values: list[float], null: float
) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    low, high = found.ends(0.9)
    assume(min(abs(null - low), abs(null - high)) > 1e-6)
    assert (found.p(null) < 0.1) == (not low < null < high)
    assert (found.tails(null).more < 0.05) == (null < low)
    assert (found.tails(null).less < 0.05) == (null > high)


@given(samples)
def test_a_higher_level_is_a_wider_interval(values: list[float]) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    lows, highs = zip(*(found.ends(level) for level in (0.5, 0.8, 0.95, 0.99)), strict=True)
    assert list(lows) == sorted(lows, reverse=True)
    assert list(highs) == sorted(highs)


def test_equal_values_have_no_interval_and_no_p_without_a_resolution() -> None:
    found = stats.paired_mean([1.0] * 5, [0.0] * 5)
    assert found.value == 1.0
    assert all(math.isnan(end) for end in found.ends())
    assert math.isnan(found.p())
    assert not found.raised


def test_a_registered_resolution_stands_for_a_spread_below_it_and_says_so() -> None:
    found = stats.paired_mean([1.0] * 5, [0.0] * 5, resolution=0.01)
    assert found.raised
    assert found.error == pytest.approx(0.01 / math.sqrt(5))
    low, high = found.ends()
    assert low == pytest.approx(1 - 2.776 * 0.01 / math.sqrt(5), rel=1e-4)
    assert high == pytest.approx(1 + 2.776 * 0.01 / math.sqrt(5), rel=1e-4)
    assert found.p() < 1e-6


@given(samples, st.floats(0, 10))
def test_a_resolution_never_makes_a_spread_smaller(values: list[float], resolution: float) -> None:
    bare, held = stats.mean_of(values), stats.mean_of(values, resolution=resolution)
    assume(bare.error > 0)
    sd = bare.error * math.sqrt(bare.n)
    assume(abs(sd - resolution) > 1e-9)
    assert held.raised == (sd < resolution)
    assert held.error == pytest.approx(max(sd, resolution) / math.sqrt(bare.n))


@pytest.mark.parametrize("n", [2, 3, 5, 10, 50])
def test_values_that_read_the_same_cannot_hide_a_spread_above_the_resolution(n: int) -> None:
    hidden = np.where(np.arange(n) < n // 2, -0.5, 0.5)  # both ends of one step of size 1
    assert hidden.std(ddof=1) < 1.0


def test_one_side_without_spread_leaves_the_other_sides() -> None:
    found = stats.unpaired_mean([1.0, 2.0, 6.0], [5.0, 5.0, 5.0])
    assert (found.value, found.df) == (-2.0, pytest.approx(2.0))
    assert found.error == pytest.approx(math.sqrt(7 / 3))
    assert math.isnan(stats.unpaired_mean([1.0, 1.0], [2.0, 2.0]).p())


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan, 2.0], [1.0, math.inf]])
def test_what_cannot_be_known_is_nan(values: list[float]) -> None:
    found = stats.mean_of(values)
    assert found.n == len(values)
    assert math.isnan(found.error)
    assert math.isnan(found.p())
    assert math.isnan(found.tails().more)
    assert math.isnan(stats.paired(values, values).low)


def test_the_shown_interval_is_the_estimates_at_any_level() -> None:
    variant, control = [1.0, 1.4, 0.9, 1.2], [0.5, 0.7, 0.8, 0.6]
    found = stats.paired_mean(variant, control)
    shown = stats.paired(variant, control, 0.8)
    assert (shown.low, shown.high) == found.ends(0.8)
    assert shown.p == found.p()
    assert stats.paired([1.0] * 3, [0.0] * 3, resolution=0.1).sd == pytest.approx(0.1)
