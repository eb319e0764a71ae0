"""What pairing achieved."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from analysis import stats

scores = st.floats(-100, 100, allow_nan=False).map(lambda x: round(x, 4))
pairs = st.lists(st.tuples(scores, scores), min_size=4, max_size=8)


def test_a_correlation_by_hand() -> None:
    # x 1 2 3, y 1 3 2: r = 1 / √(2 · 2) = ½; var(y − x) = 1, var x + var y = 2 (by n − 1).
    found = stats.pairing([1.0, 3.0, 2.0], [1.0, 2.0, 3.0])
    assert found.correlation == pytest.approx(0.5)
    assert found.saved == pytest.approx(0.5)
    assert math.isnan(found.low), "three pairs have no interval of r"


@given(pairs)
def test_the_correlation_and_its_interval_are_scipys(values: list[tuple[float, float]]) -> None:
    variant, control = map(list, zip(*values, strict=True))
    assume(np.std(variant) > 1e-2)
    assume(np.std(control) > 1e-2)
    found = stats.pairing(variant, control)
    assume(abs(found.correlation) < 0.999)
    reference = scipy_stats.pearsonr(variant, control)
    ends = reference.confidence_interval(0.95)
    assert found.correlation == pytest.approx(reference.statistic, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-6)


@given(pairs, scores, st.floats(0.1, 10))
def test_units_do_not_matter(
    values: list[tuple[float, float]], shift: float, factor: float
) -> None:
    variant, control = (np.array(side) for side in zip(*values, strict=True))
    assume(min(variant.std(), control.std()) > 1e-2)
    before, after = (
        stats.pairing(variant, control),
        stats.pairing(factor * variant + shift, factor * control),
    )
    assert after.correlation == pytest.approx(before.correlation, abs=1e-6)
    assert after.saved == pytest.approx(before.saved, abs=1e-6)


def test_luck_that_is_shared_is_saved_and_luck_that_opposes_is_added() -> None:
    luck = np.array([0.0, 0.3, -0.2, 0.1, 0.25])
    assert stats.pairing(1 + luck, luck).saved == pytest.approx(1.0)
    assert stats.pairing(1 + luck, luck).low == pytest.approx(1.0)
    assert stats.pairing(1 - luck, luck).saved == pytest.approx(-1.0)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_two_pairs_say_nothing_of_a_correlation(n: int) -> None:
    assert math.isnan(stats.pairing(list(range(n)), list(range(n))).correlation)


def test_an_arm_without_spread_has_no_correlation() -> None:
    assert math.isnan(stats.pairing([1.0, 1.0, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4]).correlation)
