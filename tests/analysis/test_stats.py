"""Every estimate against scipy, statsmodels' formulas written out, or a slow count of all cases."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

DRAW = np.random.default_rng(5)
FEW = st.lists(st.floats(-100, 100, allow_subnormal=False), min_size=3, max_size=8)


@given(FEW)
def test_the_interval_of_a_mean_is_that_of_scipy(values: list[float]) -> None:
    found = stats.mean_of(values)
    assert found.value == pytest.approx(np.mean(values))
    if np.std(values) > 1e-9 * np.abs(values).max():
        scipys = scipy_stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
        assert found.ends() == pytest.approx((scipys.low, scipys.high), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(
    "values", [[], [math.nan, 1.0], [0.3], [0.1, 0.4], [0.1 + 0.2, 0.3, 0.3]], ids=str
)
def test_what_has_no_spread_has_no_interval(values: list[float]) -> None:
    assert all(map(math.isnan, stats.mean_of(values).ends()))


def test_seeds_and_items_are_the_two_way_table_written_out() -> None:
    d = DRAW.normal(0, 1, (4, 1)) + DRAW.normal(0, 2, 6) + DRAW.normal(0, 0.5, (4, 6))
    S, items = d.shape
    mean = d.mean()
    a = items * sum((row.mean() - mean) ** 2 for row in d) / (S - 1)
    b = S * sum((column.mean() - mean) ** 2 for column in d.T) / (items - 1)
    e = sum(
        (d[s, i] - d[s].mean() - d[:, i].mean() + mean) ** 2 for s in range(S) for i in range(items)
    ) / ((S - 1) * (items - 1))
    found = stats.seeds_and_items(d)
    assert found.value == pytest.approx(mean)
    assert found.error == pytest.approx(math.sqrt((a + b - e) / (S * items)))
    assert found.same_items.ends() == pytest.approx(stats.mean_of(d.mean(axis=1)).ends())
    parts = (a - e) / (S * items), (b - e) / (S * items), e / (S * items)
    assert found.of_items == pytest.approx(parts[1] / sum(parts))
    freedom = (a + b - e) ** 2 / (
        a**2 / (S - 1) + b**2 / (items - 1) + e**2 / ((S - 1) * (items - 1))
    )
    assert found.df == pytest.approx(freedom)


def test_items_never_make_an_interval_narrower_than_the_seeds_alone() -> None:
    for _ in range(50):
        d = DRAW.normal(0, 1, (3, 1)) + DRAW.normal(0, 1, 40) + DRAW.normal(0, 0.1, (3, 40))
        found = stats.seeds_and_items(d)
        (low, high), (same_low, same_high) = found.ends(), found.same_items.ends()
        assert low <= same_low < same_high <= high


def test_one_seed_or_the_same_in_every_seed_says_nothing_of_the_next() -> None:
    for d in (np.ones((1, 5)), np.tile(np.arange(5.0), (3, 1))):
        found = stats.seeds_and_items(d)
        assert found.value == pytest.approx(d.mean())
        assert all(map(math.isnan, found.ends()))
    base = np.array([1e6, 2e6, 3e6])
    assert math.isnan(stats.paired_mean(base + 0.1, base).error), "what differs is rounding"


def test_slopes_are_those_of_polyfit_one_a_seed() -> None:
    levels = np.array([1.0, 2.0, 8.0, 64.0])
    y = DRAW.lognormal(0, 1, (5, 4))
    powers = [np.polyfit(np.log(levels), np.log(row), 1)[0] for row in y]
    assert stats.exponent(levels, y).ends() == pytest.approx(stats.mean_of(powers).ends())
    rises = [np.polyfit(np.log2(levels), row, 1)[0] for row in y]
    assert stats.growth(levels, y).ends() == pytest.approx(stats.mean_of(rises).ends())


def test_a_ratio_is_never_narrower_than_two_copies_of_one_model() -> None:
    same = [0.1, -0.05, 0.02]
    floor = stats.noise_floor(same)
    scipys = scipy_stats.ttest_1samp(same, 0.0).confidence_interval(0.95)
    assert floor == pytest.approx(max(abs(scipys.low), abs(scipys.high)))
    assert stats.noise_floor([-log for log in same]) == pytest.approx(floor)
    ratio, low, high = stats.ratio_ends([0.2, 0.201, 0.199], floor)
    assert (low, high) == pytest.approx((ratio * math.exp(-floor), ratio * math.exp(floor)))
    wide = stats.ratio_ends([0.2, 0.9, -0.5], floor)
    assert wide == pytest.approx(stats.ratio_ends([0.2, 0.9, -0.5]))


@pytest.mark.parametrize(
    ("estimate", "given", "why"),
    [
        (stats.growth, ([1, 1], [[1, 2]]), "not seeds by"),
        (stats.growth, ([1, 2], [[1, 2, 3]]), "not seeds by"),
        (stats.exponent, ([0.0, 1.0], [[1.0, 2.0]]), "no logarithm"),
        (stats.exponent, ([1.0, 2.0], [[-1.0, 2.0]]), "no logarithm"),
        (stats.log_ratio, ([], []), "samples"),
        (stats.log_ratio, ([1.0], [1.0, 2.0]), "samples"),
        (stats.log_ratio, ([0.0], [1.0]), "positive"),
        (stats.difference_ends, (6, 5), "5 seeds cannot differ by 6"),
        (stats.crossing, ([2, 1], np.zeros((3, 2))), "positive and rising"),
        (stats.seeds_and_items, ([1.0, 2.0],), "not seeds by items"),
    ],
)
def test_what_has_no_estimate_is_refused(estimate: Any, given: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        estimate(*given)


def chance_of(least: int, n: int, p10: float, p01: float) -> float:
    """P(D ≥ least), by going through every outcome of n pairs."""
    chances = {1: p10, -1: p01, 0: 1 - p10 - p01}
    return sum(
        math.prod(chances[step] for step in steps)
        for steps in itertools.product(chances, repeat=n)
        if sum(steps) >= least
    )


@pytest.mark.parametrize(("d", "n"), [(5, 5), (4, 5), (2, 5), (3, 4), (0, 3)])
def test_at_the_ends_of_a_difference_of_rates_the_worst_chance_is_the_tail(d: int, n: int) -> None:
    low, high = stats.difference_ends(d, n)
    worst = max(
        chance_of(d, n, p01 + low, p01)
        for p01 in np.linspace(max(0.0, -low), ((1 - low) / 2) ** 2, 60)
    )
    assert worst == pytest.approx(0.025, abs=2e-4) or low == -1.0
    assert stats.difference_ends(-d, n) == pytest.approx((-high, -low))
    assert low <= d / n <= high


def test_every_true_difference_of_rates_is_covered() -> None:
    """Exactly: over all outcomes of independent sides and of sides that share their luck."""
    n = 5
    ends = {d: stats.difference_ends(d, n) for d in range(-n, n + 1)}
    for p, q, share in itertools.product((0.05, 0.3, 0.6, 0.95), (0.05, 0.5, 0.9), (0.0, 0.5, 1.0)):
        both = share * min(p, q) + (1 - share) * p * q
        p10, p01 = p - both, q - both
        covered = sum(
            chance_of(d, n, p10, p01) - chance_of(d + 1, n, p10, p01)
            for d, (low, high) in ends.items()
            if low - 1e-9 <= p - q <= high + 1e-9
        )
        assert covered >= 0.95


def test_a_crossing_lies_where_the_band_joined_by_straight_lines_holds_zero() -> None:
    levels = np.array([1.0, 2.0, 4.0, 8.0])
    d = np.log(levels / 3) + np.array([[0.1], [-0.1], [0.0]]) * np.array([1, -1, 1, -1])
    found = stats.crossing(levels, d)
    each = 1 - 0.05 / 4
    band = [stats.mean_of(column).ends(each) for column in d.T]
    x = np.linspace(0, math.log(8), 20001)
    lower = np.interp(x, np.log(levels), [low for low, _ in band])
    upper = np.interp(x, np.log(levels), [high for _, high in band])
    possible = x[(lower <= 0) & (upper >= 0)]
    assert found.changes == 1
    assert math.log(found.low) == pytest.approx(possible[0], abs=1e-3)
    assert math.log(found.high) == pytest.approx(possible[-1], abs=1e-3)
    assert found.at == pytest.approx(3, rel=0.1)


def test_curves_that_stay_apart_cross_nowhere_and_an_open_end_is_infinite() -> None:
    noise = np.array([[0.01], [-0.01], [0.0]]) * np.array([1, -1, 1])
    apart = stats.crossing([1, 2, 4], noise + 1)
    assert (apart.changes, apart.signs) == (0, (1, 1, 1))
    assert math.isnan(apart.low)
    late = stats.crossing([1, 2, 4], noise + np.array([1, 0.5, 0.0]))
    assert (late.changes, late.high) == (0, math.inf)
    assert 2 < late.low < 4


def test_a_floor_widens_the_band_and_counts_have_none() -> None:
    d = np.array([[-0.1, 0.1], [-0.11, 0.11], [-0.09, 0.09]])
    assert stats.crossing([1, 2], d).changes == 1
    assert stats.crossing([1, 2], d, 0.2).changes == 0
    assert stats.crossing([1, 2], d[:1]).changes == 0
    counted = stats.crossing([1, 2], d[:1], exact=True)
    assert (counted.changes, counted.low) == (1, pytest.approx(counted.high))


@pytest.mark.parametrize(
    ("effect", "sd", "bounds"),
    [(1.0, 1.0, (0.0, None)), (-0.5, 1.0, (0.2, None)), (0.1, 0.5, (-1.0, 1.0))],
)
def test_as_many_seeds_as_are_needed_decide_four_times_in_five(
    effect: float, sd: float, bounds: stats.Bounds
) -> None:
    n = int(stats.seeds_needed(effect, sd, bounds))

    def rate(n: int) -> float:
        draws = np.random.default_rng(1).normal(effect, sd, (4000, n))
        half = scipy_stats.t.ppf(0.975, n - 1) * draws.std(axis=1, ddof=1) / math.sqrt(n)
        low, high = draws.mean(axis=1) - half, draws.mean(axis=1) + half
        least, most = (e if e is not None else s for e, s in zip(bounds, (-9e9, 9e9), strict=True))
        is_inside = least < effect < most
        decided = (low > least) & (high < most) if is_inside else (high < least) | (low > most)
        return float(decided.mean())

    assert rate(n) >= 0.8 - 0.03
    if n > stats.LEAST:
        assert rate(n - 1) < 0.8 + 0.03


def test_an_effect_on_the_edge_is_decided_by_no_number_of_seeds() -> None:
    assert stats.seeds_needed(0.1, 1.0, (0.1, None)) == math.inf
    assert stats.seeds_needed(0.1, math.nan, (0.0, None)) == math.inf
