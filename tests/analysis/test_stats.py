"""The statistics against formulas that were written down by other people, or by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

scores = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 4))
pairs = st.lists(st.tuples(scores, scores), min_size=3, max_size=8)
p_values = st.lists(st.floats(0, 1), min_size=1, max_size=8)


def t_interval_by_hand(values: list[float]) -> tuple[float, float]:
    """mean ± t · sd / √n, with the 97.5 % quantiles of t from a printed table."""
    table = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571}
    n = len(values)
    mean = sum(values) / n
    sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    half = table[n - 1] * sd / math.sqrt(n)
    return mean - half, mean + half


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_interval_is_the_one_in_the_textbook(n: int) -> None:
    values = [0.31, 0.28, 0.35, 0.30, 0.27, 0.33][:n]
    found = stats.interval(values)
    assert (found.low, found.high) == pytest.approx(t_interval_by_hand(values), rel=1e-3)


def test_the_interval_covers_the_truth_nineteen_times_in_twenty() -> None:
    draw = np.random.default_rng(0)
    found = [stats.interval(draw.normal(1.0, 2.0, 5).tolist()) for _ in range(1500)]
    covered = np.mean([one.low <= 1.0 <= one.high for one in found])
    assert 0.93 < covered < 0.97


@given(pairs)
def test_the_p_value_is_that_of_the_paired_t_test(values: list[tuple[float, float]]) -> None:
    variant, control = map(list, zip(*values, strict=True))
    found = stats.paired(variant, control)
    assume(found.sd > 1e-3)
    reference = scipy_stats.ttest_rel(variant, control)
    assert found.p == pytest.approx(reference.pvalue, rel=1e-6, abs=1e-12)
    ends = reference.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=1e-6, abs=1e-9)


@given(pairs, scores)
def test_a_shift_of_both_sides_changes_nothing(
    values: list[tuple[float, float]], shift: float
) -> None:
    variant, control = (np.array(side) for side in zip(*values, strict=True))
    before = stats.paired(variant.tolist(), control.tolist())
    assume(before.sd > 1e-3)
    after = stats.paired((variant + shift).tolist(), (control + shift).tolist())
    assert after.mean == pytest.approx(before.mean, abs=1e-9)
    assert after.p == pytest.approx(before.p, rel=1e-6, abs=1e-12)


@given(pairs)
def test_swapping_the_sides_flips_the_sign_and_nothing_else(
    values: list[tuple[float, float]],
) -> None:
    variant, control = map(list, zip(*values, strict=True))
    there, back = stats.paired(variant, control), stats.paired(control, variant)
    assert back.mean == -there.mean
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), nan_ok=True)
    assert back.p == pytest.approx(there.p, nan_ok=True)
    assert back.correlation == pytest.approx(there.correlation, nan_ok=True)


def test_pairing_reports_the_correlation_that_it_achieved() -> None:
    luck = [0.0, 0.3, -0.2, 0.1]
    found = stats.paired([1 + x for x in luck], [2 + x + 0.001 * i for i, x in enumerate(luck)])
    assert found.correlation > 0.99


def test_one_pair_has_a_difference_but_no_interval_and_no_verdict() -> None:
    found = stats.paired([0.5], [0.3])
    assert (found.n, found.mean) == (1, pytest.approx(0.2))
    assert math.isnan(found.low)
    assert math.isnan(found.p)
    assert stats.verdict(found, math.nan, "lower") == "no verdict below n = 3"


def test_no_pair_is_not_run() -> None:
    assert stats.verdict(stats.paired([], []), math.nan, "lower") == "not run"


def test_equal_differences_have_no_known_spread_so_they_decide_nothing() -> None:
    # 0.3 − 0.2 and 0.4 − 0.3 differ in the last bit: a t-test would call that p = 1e-32.
    found = stats.paired([0.3, 0.4, 0.7], [0.2, 0.3, 0.6])
    assert found.sd == 0.0
    assert found.mean == pytest.approx(0.1)
    assert math.isnan(found.low)
    assert math.isnan(found.p)
    assert stats.verdict(found, found.p, "lower") == "not resolved"


def test_holm_gives_the_textbook_values() -> None:
    # Holm's procedure on 0.01, 0.04, 0.03, 0.005: 4·0.005, 3·0.01, 2·0.03, then the maximum.
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(p_values)
def test_holm_keeps_the_order_never_lowers_a_p_and_stays_below_bonferroni(p: list[float]) -> None:
    adjusted = stats.holm(p)
    order = np.argsort(p, kind="stable")
    assert all(np.diff(np.array(adjusted)[order]) >= 0)
    for raw, corrected in zip(p, adjusted, strict=True):
        assert raw <= corrected <= min(1.0, raw * len(p)) + 1e-12


def test_a_contrast_that_has_no_p_yet_still_counts_in_the_family() -> None:
    first, missing = stats.holm([0.03, math.nan])
    assert first == pytest.approx(0.06)
    assert math.isnan(missing)


@pytest.mark.parametrize(
    ("n", "family", "expected"), [(3, 1, 3.3), (3, 4, 6.5), (5, 1, 1.7), (5, 4, 2.5)]
)
def test_few_seeds_can_only_show_large_effects(n: int, family: int, expected: float) -> None:
    assert stats.detectable(n, 0.05 / family) == pytest.approx(expected, abs=0.06)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_the_detectable_effect_is_detected_four_times_in_five(n: int) -> None:
    draw = np.random.default_rng(1)
    sample = draw.normal(stats.detectable(n), 1.0, (20_000, n))
    hits = scipy_stats.ttest_1samp(sample, 0.0, axis=1).pvalue < 0.05
    assert hits.mean() == pytest.approx(0.8, abs=0.015)


def test_one_seed_can_show_nothing() -> None:
    assert math.isnan(stats.detectable(1))


@pytest.mark.parametrize(("better", "verdict"), [("lower", stats.WORSE), ("higher", stats.BETTER)])
def test_more_is_worse_or_better_as_the_metric_says(better: str, verdict: str) -> None:
    found = stats.paired([1.0, 1.1, 1.05], [0.5, 0.62, 0.54])
    assert stats.verdict(found, found.p, better) == verdict
    assert stats.verdict(found, 0.051, better) == stats.NOT_RESOLVED


def test_a_planted_slowdown_is_found_although_the_machine_wobbles() -> None:
    draw = np.random.default_rng(2)
    wobble = draw.uniform(0.03, 0.09, 20)  # a busy neighbour: three times as slow at worst
    slow = wobble * 1.10 * draw.normal(1, 0.01, 20)
    found = stats.timing_ratio(slow.tolist(), wobble.tolist())
    assert found.low < 1.10 < found.high
    assert found.high - found.low < 0.02
    assert stats.speed_verdict(found, floor=math.log(1.01)) == stats.SLOWER
    assert stats.speed_verdict(found, floor=math.log(1.2)) == stats.NOT_RESOLVED
    assert stats.speed_verdict(found, floor=math.nan) == stats.NOT_RESOLVED


@given(st.lists(st.tuples(st.floats(0.01, 10), st.floats(0.01, 10)), min_size=2, max_size=12))
def test_the_ratio_the_other_way_round_is_its_inverse(blocks: list[tuple[float, float]]) -> None:
    own, reference = map(list, zip(*blocks, strict=True))
    there, back = stats.timing_ratio(own, reference), stats.timing_ratio(reference, own)
    assert back.ratio == pytest.approx(1 / there.ratio)
    assert (back.low, back.high) == pytest.approx((1 / there.high, 1 / there.low), nan_ok=True)


def test_the_noise_floor_is_the_far_end_of_the_pair_that_should_be_equal() -> None:
    assert stats.noise_floor(stats.Ratio(9, 1.01, 0.97, 1.05)) == pytest.approx(math.log(1.05))
    assert math.isnan(stats.noise_floor(stats.Ratio(1, 1.01)))


@pytest.mark.parametrize(
    ("samples", "reference"), [([0.1], [0.1, 0.2]), ([0.0], [0.1]), ([-0.1, 0.1], [0.1, 0.1])]
)
def test_times_that_cannot_be_paired_are_refused(
    samples: list[float], reference: list[float]
) -> None:
    with pytest.raises(ValueError, match=r"samples but|positive"):
        stats.timing_ratio(samples, reference)
