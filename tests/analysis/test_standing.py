"""How far a finding stands inside its prediction, counted in half-widths of its interval."""

from __future__ import annotations

import math
from typing import Any

import pytest

from analysis.standing import standing


def told(word: str, **fields: Any) -> dict[str, Any]:
    return {"word": word, "kind": "level", "by": 0.0, "within": None, "between": None, **fields}


def found(effect: float, low: float, high: float, shows: str = "difference") -> dict[str, Any]:
    return {"effect": effect, "interval": [low, high], "shows": shows}


@pytest.mark.parametrize(
    ("plain", "better", "expected"),
    [
        (told("worse"), "lower", 3.0),
        (told("worse"), "higher", -3.0),
        (told("better"), "lower", -3.0),
        (told("better"), "higher", 3.0),
        (told("worse", by=0.2), "lower", 1.0),
        (told("better", by=0.5), "higher", -2.0),
        (told("better", by=-0.4), "lower", 1.0),
        (told("equal", within=0.5), "lower", 2.0),
        (told("equal", within=0.1), "higher", -2.0),
        (told("grows"), "lower", 3.0),
        (told("exponent", between=(0.25, 0.9)), "lower", 0.5),
        (told("exponent", between=(None, 0.2)), "lower", -1.0),
        (told("exponent", between=(0.2, None)), "lower", 1.0),
    ],
)
def test_an_effect_of_three_half_widths_stands_so_far_inside(
    plain: dict[str, Any], better: str, expected: float
) -> None:
    assert standing(plain, better, found(0.3, 0.2, 0.4)) == pytest.approx(expected)


def test_an_equality_has_an_edge_on_either_side() -> None:
    plain = told("equal", within=0.5)
    assert standing(plain, "lower", found(-0.3, -0.4, -0.2)) == pytest.approx(2.0)
    assert standing(plain, "lower", found(-0.6, -0.7, -0.5)) == pytest.approx(-1.0)


def test_ratios_are_counted_in_their_logarithm() -> None:
    plain = told("ratio", between=(1.0, None))
    assert standing(plain, "lower", found(4.0, 2.0, 8.0, "ratio")) == pytest.approx(2.0)
    upper = told("ratio", between=(None, 2.0))
    assert standing(upper, "lower", found(4.0, 2.0, 8.0, "ratio")) == pytest.approx(-1.0)
    assert math.isnan(standing(plain, "lower", found(-0.4, -0.8, 0.1)))  # none could be taken


def test_an_interval_that_touches_the_margin_stands_at_one() -> None:
    plain = told("worse", by=0.2)
    assert standing(plain, "lower", found(0.3, 0.2, 0.4)) == pytest.approx(1.0)
    assert standing(plain, "lower", found(0.1, 0.0, 0.2)) == pytest.approx(-1.0)


@pytest.mark.parametrize("word", ["fails", "trains", "ordered", "worst", "crosses", "exact"])
def test_what_is_no_number_with_an_interval_stands_nowhere(word: str) -> None:
    assert math.isnan(standing(told(word), "lower", found(0.3, 0.2, 0.4)))


def test_a_share_of_seeds_stands_nowhere_though_its_mean_differs() -> None:
    assert math.isnan(standing(told("better", kind="basin"), "higher", found(0.3, 0.2, 0.4)))


def test_without_an_interval_nothing_is_said() -> None:
    assert math.isnan(standing(told("worse"), "lower", found(0.3, math.nan, math.nan)))
