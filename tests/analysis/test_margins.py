"""Predictions with a margin: for, against, and undecided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

scores = st.floats(-10, 10, allow_nan=False).map(lambda x: round(x, 4))
samples = st.lists(scores, min_size=3, max_size=8)
margins = st.floats(0, 10)


def test_equality_by_hand() -> None:
    # Mean 0, error 1, df 3, margin 2.3534: t at both margins is the 5 % quantile of t(3).
    found = stats.equal_within(stats.Estimate(4, 0.0, 1.0, 3), 2.35336)
    assert found.supports == pytest.approx(0.05, rel=1e-4)
    assert found.refutes == 1.0


def test_a_difference_past_the_margin_refutes_equality() -> None:
    # t = (5 − 1) / 1 over df 4: one-sided p .00806, doubled.
    found = stats.equal_within(stats.Estimate(5, 5.0, 1.0, 4), 1.0)
    assert found.refutes == pytest.approx(2 * scipy_stats.t.sf(4, 4))
    assert found.word() == stats.REFUTED


@given(samples, margins)
def test_equality_is_the_ninety_percent_interval_inside_the_margins(
    values: list[float], margin: float
) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    low, high = found.ends(0.90)
    assume(min(abs(low + margin), abs(high - margin)) > 1e-6)
    inside = -margin < low and high < margin
    assert (stats.equal_within(found, margin).supports < 0.05) == inside


@given(samples, margins)
def test_two_one_sided_tests_agree_with_scipy(values: list[float], margin: float) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    above = scipy_stats.ttest_1samp(values, -margin, alternative="greater").pvalue
    below = scipy_stats.ttest_1samp(values, margin, alternative="less").pvalue
    p = stats.equal_within(found, margin).supports
    assert p == pytest.approx(max(above, below), rel=1e-6, abs=1e-12)


@given(samples, margins, st.sampled_from(["lower", "higher"]))
def test_better_and_worse_are_mirror_images(
    values: list[float], margin: float, better: str
) -> None:
    found = stats.mean_of(values)
    mirrored = stats.mean_of([-value for value in values])
    assume(found.error > 1e-3)
    other = {"lower": "higher", "higher": "lower"}[better]
    expected = stats.better_by(found, margin, better)
    for same in (
        stats.worse_by(found, margin, other),
        stats.worse_by(mirrored, margin, better),
        stats.better_by(mirrored, margin, other),
    ):
        assert same.supports == pytest.approx(expected.supports)
        assert same.refutes == pytest.approx(expected.refutes)


@given(samples, margins)
def test_not_worse_is_the_opposite_of_worse(values: list[float], margin: float) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    worse, not_worse = (
        stats.worse_by(found, margin, "lower"),
        stats.not_worse_by(found, margin, "lower"),
    )
    assert (not_worse.supports, not_worse.refutes) == (worse.refutes, worse.supports)


@given(samples, st.tuples(margins, margins).map(sorted))
def test_a_larger_margin_is_harder_to_beat_and_easier_to_be_equal_within(
    values: list[float], sizes: list[float]
) -> None:
    found = stats.mean_of(values)
    assume(found.error > 1e-3)
    small, large = sizes
    assert (
        stats.better_by(found, large, "lower").supports
        >= stats.better_by(found, small, "lower").supports
    )
    assert (
        stats.not_worse_by(found, large, "lower").supports
        <= stats.not_worse_by(found, small, "lower").supports
    )
    assert stats.equal_within(found, large).supports <= stats.equal_within(found, small).supports


@pytest.mark.parametrize(
    ("differences", "word"),
    [
        ([-0.30, -0.32, -0.29, -0.31], stats.SUPPORTED),
        ([-0.05, -0.06, -0.04, -0.05], stats.REFUTED),
        ([-0.12, -0.05, -0.20, -0.02], stats.UNDECIDED),
        ([-0.30, -0.30, -0.30, -0.30], stats.UNDECIDED),  # no spread, no resolution
        ([-0.30], stats.UNDECIDED),
    ],
)
def test_lower_by_a_tenth(differences: list[float], word: str) -> None:
    found = stats.better_by(stats.mean_of(differences), 0.1, "lower")
    assert found.word() == word


def test_the_same_difference_in_every_seed_decides_once_a_resolution_is_registered() -> None:
    found = stats.mean_of([-0.3] * 4, resolution=0.01)
    assert stats.better_by(found, 0.1, "lower").word() == stats.SUPPORTED


def test_a_correction_decides_and_the_side_stays() -> None:
    found = stats.Tested(supports=0.9, refutes=0.02)
    assert found.word() == stats.REFUTED
    assert found.word(0.08) == stats.UNDECIDED
    assert stats.Tested().word() == stats.UNDECIDED
    assert math.isnan(stats.Tested().p)


def test_tails_become_a_prediction() -> None:
    tails = stats.Tails(more=0.01, less=0.99)
    assert stats.directed(tails, "higher").word() == stats.SUPPORTED
    assert stats.directed(tails, "lower").word() == stats.REFUTED
    with pytest.raises(ValueError, match="'lower' or 'higher'"):
        stats.directed(tails, "up")


@pytest.mark.parametrize("margin", [-0.1, math.nan, math.inf])
def test_a_margin_is_a_size(margin: float) -> None:
    found = stats.mean_of(np.arange(4.0))
    with pytest.raises(ValueError, match="a margin is a size"):
        stats.equal_within(found, margin)
    with pytest.raises(ValueError, match="a margin is a size"):
        stats.better_by(found, margin, "lower")
