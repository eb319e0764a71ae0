"""Families of contrasts, and many questions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import stats

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=6)


def test_rows_that_were_declared_and_never_run_count_in_holm() -> None:
    # 5·0.005, 4·0.01, 3·0.03: two more rows were declared than the three that were run.
    assert stats.holm([0.01, 0.03, 0.005], family=5) == pytest.approx([0.04, 0.09, 0.025])


@given(p_values, st.integers(0, 4))
def test_an_absent_row_is_a_p_of_one(p: list[float], absent: int) -> None:
    padded = stats.holm([*p, *[1.0] * absent])[: len(p)]
    assert stats.holm(p, family=len(p) + absent) == pytest.approx(padded)


@given(p_values, st.data())
def test_a_smaller_p_never_makes_another_ones_larger(p: list[float], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(p) - 1))
    smaller = [*p]
    smaller[index] = data.draw(st.floats(0, p[index]))
    for before, after in zip(stats.holm(p), stats.holm(smaller), strict=True):
        assert after <= before + 1e-12


def test_a_family_smaller_than_its_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="declare every contrast"):
        stats.holm([0.1, 0.2], family=1)


def test_sixty_questions_expect_three_false_verdicts() -> None:
    found = stats.false_verdicts([0.05] * 60, decided=40)
    assert found.expected == pytest.approx(3.0)
    assert found.any == pytest.approx(1 - 0.95**60)
    assert found.share == pytest.approx(3 / 40)
    assert found.limit == 6  # P(X ≤ 5) = .921, P(X ≤ 6) = .970 for Binomial(60, .05)


def test_two_questions_by_hand() -> None:
    found = stats.false_verdicts([0.1, 0.2], level=0.7)
    assert found.expected == pytest.approx(0.3)
    assert found.any == pytest.approx(1 - 0.9 * 0.8)
    assert found.limit == 0  # .72 of the time there is none
    assert stats.false_verdicts([0.1, 0.2], level=0.75).limit == 1
    assert math.isnan(found.share)


def test_no_question_has_no_false_verdict() -> None:
    found = stats.false_verdicts([])
    assert (found.expected, found.any, found.limit) == (0.0, 0.0, 0)


@pytest.mark.parametrize(("alphas", "decided"), [([1.5], 0), ([0.05], 2)])
def test_impossible_questions_are_refused(alphas: list[float], decided: int) -> None:
    with pytest.raises(ValueError, match=r"chance|decided"):
        stats.false_verdicts(alphas, decided)
