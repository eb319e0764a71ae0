"""Looks at fixed prefixes of the planned seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import stats

Array = np.ndarray[Any, Any]


def level(prefix: Array) -> stats.Tested:
    return stats.better_by(stats.paired_mean(prefix[:, 0], prefix[:, 1]), 0.0, "higher")


def basin(prefix: Array) -> stats.Tested:
    return stats.directed(stats.basin(prefix[:, 0] > 0.5, prefix[:, 1] > 0.5).tails, "higher")


def differences(values: list[float]) -> Array:
    return np.stack([np.array(values), np.zeros(len(values))], axis=1)


CLEAR = [1.0, 1.02, 0.98, 1.01, 0.99, 1.0, 1.03, 0.97, 1.0, 1.01]
UNCLEAR = [1.0, -0.9, 0.8, -1.1, 0.2, 0.3, -0.4, 0.9, -1.0, 0.1]


def test_a_clear_difference_is_decided_by_three_seeds() -> None:
    found = stats.decide(stats.Planned(differences(CLEAR), level))
    # t = 1 / (.02 / √3) with df 2, one-sided, over the first look's weight.
    t = math.sqrt(3) / 0.02
    by_hand = (1 - t / math.sqrt(t**2 + 2)) / 2 / 0.1
    assert (found.word, found.n, found.look) == (stats.SUPPORTED, 3, 0)
    assert found.p == pytest.approx(by_hand, rel=1e-6)
    assert len(found.tested) == 1


def test_what_no_look_decides_keeps_its_smallest_weighted_p() -> None:
    found = stats.decide(stats.Planned(differences(UNCLEAR), level))
    assert (found.word, found.n, found.look) == (stats.UNDECIDED, 10, 2)
    by_hand = [
        level(differences(UNCLEAR[:n])).p / weight
        for n, weight in zip((3, 5, 10), (0.1, 0.3, 0.6), strict=True)
    ]
    assert found.p == pytest.approx(min(1.0, *by_hand))


@given(st.lists(st.floats(-3, 3), min_size=10, max_size=10), st.data())
def test_seeds_beyond_a_decision_never_change_it(values: list[float], data: st.DataObject) -> None:
    first = stats.decide(stats.Planned(differences(values), level))
    if first.word == stats.UNDECIDED:
        return
    others = data.draw(st.lists(st.floats(-3, 3), min_size=0, max_size=9))
    again = stats.decide(stats.Planned(differences(values[: first.n] + others), level))
    assert again == first


@given(st.lists(st.floats(-3, 3), min_size=0, max_size=14))
def test_more_seeds_never_undo_a_decision(values: list[float]) -> None:
    words = [
        stats.decide(stats.Planned(differences(values[:n]), level)).word
        for n in range(len(values) + 1)
    ]
    decided = [word for word in words if word != stats.UNDECIDED]
    assert len(set(decided)) <= 1
    assert words == [stats.UNDECIDED] * (len(words) - len(decided)) + decided


@given(st.lists(st.floats(-3, 3), min_size=3, max_size=12))
def test_seeds_between_two_looks_wait_for_the_next(values: list[float]) -> None:
    n = max(look for look in (3, 5, 10) if look <= len(values))
    whole = stats.decide(stats.Planned(differences(values), level))
    assert whole == stats.decide(stats.Planned(differences(values[:n]), level))


def test_a_basin_is_looked_at_by_five_and_by_ten() -> None:
    hits = [1.0, 1.0, 1.0, 1.0, 1.0]
    for n, word in ((3, stats.UNDECIDED), (4, stats.UNDECIDED), (5, stats.SUPPORTED)):
        planned = stats.Planned(differences(hits[:n]), basin, stats.BASIN_LOOKS)
        assert stats.decide(planned).word == word
    found = stats.decide(stats.Planned(differences(hits), basin, stats.BASIN_LOOKS))
    assert found.p == pytest.approx(2**-10 / 0.3)


def test_five_against_one_is_decided_by_five_seeds() -> None:
    pairs = np.array([[1.0, 1.0], *[[1.0, 0.0]] * 4])
    found = stats.decide(stats.Planned(pairs, basin, stats.BASIN_LOOKS))
    assert (found.word, found.n) == (stats.SUPPORTED, 5)
    # Worst case at a half: 11 of the 1,024 outcomes of ten fair coins are as extreme.
    assert found.p == pytest.approx(11 / 1024 / 0.3)


def test_before_the_first_look_nothing_is_known() -> None:
    found = stats.decide(stats.Planned(differences([1.0, 1.1]), level))
    assert (found.word, found.n, found.look) == (stats.UNDECIDED, 0, -1)
    assert math.isnan(found.p)


def test_a_family_of_one_is_the_prediction_alone_and_absent_rows_cost() -> None:
    planned = stats.Planned(differences(CLEAR), level)
    alone = stats.decide(planned)
    assert stats.decide_family([planned]) == [alone]
    (in_company,) = stats.decide_family([planned], declared=4)
    assert in_company.p == pytest.approx(4 * alone.p)


def test_a_neighbour_that_falls_lowers_the_hurdle_and_the_early_look_then_decides() -> None:
    def fixed(*p: float) -> stats.Planned:
        """At each look the p that is given."""
        rows = iter(p)
        return stats.Planned(np.zeros((10, 2)), lambda prefix: stats.Tested(next(rows), 1.0))

    # p / w of the first: .035, .9, .9; of the second .8, .01, –. Family of two: .07 > .05 at
    # first; once the second has fallen at .02, .035 stands alone.
    first, second = stats.decide_family([fixed(0.0035, 0.27, 0.54), fixed(0.08, 0.003)])
    assert (second.word, second.n, second.p) == (stats.SUPPORTED, 5, pytest.approx(0.02))
    assert (first.word, first.n, first.p) == (stats.SUPPORTED, 3, pytest.approx(0.035))


def test_stored_seeds_of_a_decided_neighbour_change_nothing() -> None:
    clear, unclear = differences(CLEAR), differences(UNCLEAR)
    short = [stats.Planned(clear[:3], level), stats.Planned(unclear, level)]
    long = [stats.Planned(clear, level), stats.Planned(unclear, level)]
    assert stats.decide_family(short) == stats.decide_family(long)


def test_what_was_found_first_stands_though_later_seeds_disagree() -> None:
    turned = [*CLEAR[:3], *[-5.0] * 7]
    found = stats.decide(stats.Planned(differences(turned), level))
    assert (found.word, found.n) == (stats.SUPPORTED, 3)


def test_a_look_that_knows_nothing_decides_nothing_and_the_next_one_may() -> None:
    same = [1.0, 1.0, 1.0, 1.01, 0.99]  # three seeds alike have no spread
    found = stats.decide(stats.Planned(differences(same), level))
    assert math.isnan(found.tested[0].p)
    assert (found.word, found.n) == (stats.SUPPORTED, 5)


def test_the_interval_of_a_look_spends_its_share() -> None:
    assert stats.LEVEL_LOOKS.level(0) == pytest.approx(1 - 0.05 * 0.1)
    assert stats.LEVEL_LOOKS.level(2, alpha=0.1) == pytest.approx(0.94)


@pytest.mark.parametrize(
    ("seeds", "weights"),
    [((3, 5), (0.5,)), ((5, 3), (0.5, 0.5)), ((3, 5), (0.6, 0.6)), ((3, 5), (0.0, 1.0)), ((), ())],
)
def test_looks_that_would_overspend_are_refused(
    seeds: tuple[int, ...], weights: tuple[float, ...]
) -> None:
    with pytest.raises(ValueError, match=r"look|sum to 1"):
        stats.Looks(seeds, weights)
