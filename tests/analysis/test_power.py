"""Power, what can be detected, and how many seeds a decision takes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy import stats as scipy_stats

from analysis import stats


@pytest.mark.parametrize("n", [2, 3, 5, 10, 40])
@pytest.mark.parametrize("alpha", [0.05, 0.0125])
@pytest.mark.parametrize("distance", [0.3, 1.0, 3.0])
def test_power_is_the_tail_of_scipys_noncentral_t(n: int, alpha: float, distance: float) -> None:
    critical = scipy_stats.t.isf(alpha, n - 1)
    reference = scipy_stats.nct.sf(critical, n - 1, distance * math.sqrt(n))
    assert stats.power_of(n, distance, alpha) == pytest.approx(reference, abs=1e-9)


@pytest.mark.parametrize(("n", "margin"), [(2, 12.0), (3, 2.0), (5, 1.6), (10, 1.0), (30, 0.4)])
def test_the_power_of_equivalence_is_that_of_a_plain_integral(n: int, margin: float) -> None:
    critical, chi = scipy_stats.t.isf(0.05, n - 1), scipy_stats.chi2(n - 1)

    def decided(x: float) -> float:
        room = math.sqrt(n) * margin - critical * math.sqrt(x / (n - 1))
        return max(0.0, 2 * scipy_stats.norm.cdf(room) - 1) * chi.pdf(x)

    most = (n - 1) * n * (margin / critical) ** 2
    reference, _ = integrate.quad(decided, 0, min(most, chi.isf(1e-12)), limit=200)
    assert stats.power_of(n, margin, equal=True) == pytest.approx(reference, abs=1e-5)


@pytest.mark.parametrize("equal", [False, True])
@given(st.integers(2, 60), st.floats(0.05, 4), st.floats(0.001, 0.2))
def test_power_grows_with_seeds_distance_and_level(
    equal: bool, n: int, distance: float, alpha: float
) -> None:
    here = stats.power_of(n, distance, alpha, equal=equal)
    assert 0 <= here <= 1 + 1e-9
    if not equal or here > 0.3:  # two seeds find equality by luck more often than three do
        assert stats.power_of(n + 1, distance, alpha, equal=equal) >= here - 1e-9
    assert stats.power_of(n, distance * 1.1, alpha, equal=equal) >= here - 1e-9
    assert stats.power_of(n, distance, alpha * 1.1, equal=equal) >= here - 1e-9


def test_at_no_distance_power_is_the_level() -> None:
    assert stats.power_of(5, 0.0, 0.03) == pytest.approx(0.03)
    assert stats.power_of(5, 0.0, equal=True) == 0.0


@pytest.mark.parametrize("equal", [False, True])
@given(st.floats(0.2, 5))
def test_the_seeds_needed_are_enough_and_one_fewer_are_not(equal: bool, distance: float) -> None:
    needed = stats.seeds_needed(distance, 1.0, 5, equal=equal).expected
    assert stats.power_of(int(needed), distance, equal=equal) >= 0.8
    if needed > 2:
        assert stats.power_of(int(needed) - 1, distance, equal=equal) < 0.8


def test_the_range_is_that_of_the_sd_by_hand() -> None:
    # χ²(4) has its 10 % and 90 % quantiles at 1.064 and 7.779: σ between .717 and 1.939 sd.
    found = stats.seeds_needed(1.0, 1.0, 5)
    assert found.low == stats.seeds_needed(1.0, math.sqrt(4 / 7.779), 5).expected
    assert found.high == stats.seeds_needed(1.0, math.sqrt(4 / 1.064), 5).expected
    assert found.low < found.expected < found.high


@given(st.floats(0.1, 3), st.floats(0.1, 3), st.floats(0.1, 10), st.integers(2, 12))
def test_units_do_not_change_the_seeds_needed(
    distance: float, sd: float, factor: float, n: int
) -> None:
    # A power of two scales without rounding.
    factor = 2.0 ** round(math.log2(factor))
    assert stats.seeds_needed(distance, sd, n) == stats.seeds_needed(
        factor * distance, factor * sd, n
    )


def test_more_seeds_narrow_the_range() -> None:
    few, many = stats.seeds_needed(0.5, 1.0, 3), stats.seeds_needed(0.5, 1.0, 30)
    assert few.low <= many.low <= many.expected <= many.high < few.high


def test_a_truth_on_its_null_takes_infinitely_many_seeds() -> None:
    assert stats.seeds_needed(0.0, 1.0, 5).low == math.inf
    assert stats.seeds_needed(-0.5, 1.0, 5).low == math.inf
    assert stats.seeds_needed(1e-9, 1.0, 5).expected == math.inf


@pytest.mark.parametrize(("sd", "n"), [(0.0, 5), (math.nan, 1), (1.0, 1)])
def test_without_a_known_spread_nobody_knows(sd: float, n: int) -> None:
    assert math.isnan(stats.seeds_needed(1.0, sd, n).expected)
