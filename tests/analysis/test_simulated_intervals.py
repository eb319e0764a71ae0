"""Coverage, power and savings, counted over simulated experiments whose truth is known.

Each test runs short, and long with `-m soak`; with -s it prints its table. A bound holds within
three binomial standard errors of the number of runs.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from analysis import stats

Array = np.ndarray[Any, Any]
SEEDS = (3, 5, 10)
TEN = stats.Looks((10,), (1.0,))
EFFORTS = [pytest.param(2, id="short"), pytest.param(40, id="long", marks=pytest.mark.soak)]


@pytest.fixture(params=EFFORTS)
def effort(request: pytest.FixtureRequest) -> int:
    return int(request.param)


def show(title: str, rows: list[tuple[Any, ...]]) -> None:
    print(f"\n{title}")
    for row in rows:
        print("  " + "  ".join(f"{x:>9.3f}" if isinstance(x, float) else f"{x!s:<40}" for x in row))


def error(rate: float, runs: int) -> float:
    return 3 * math.sqrt(max(rate * (1 - rate), 1e-9) / runs)


def means(draw: np.random.Generator, n: int) -> bool:
    low, high = stats.mean_of(draw.normal(0.3, 1.0, n)).ends()
    return low <= 0.3 <= high


def unpaired(draw: np.random.Generator, n: int) -> bool:
    low, high = stats.unpaired_mean(draw.normal(0.3, 3.0, n), draw.normal(0, 1, n)).ends()
    return low <= 0.3 <= high


def exponents(draw: np.random.Generator, n: int) -> bool:
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    rates = draw.normal(1.5, 0.2, (n, 1))
    low, high = stats.exponent(sizes, sizes**rates * draw.lognormal(0, 0.1, (n, 4))).ends()
    return low <= 1.5 <= high


def crossings(draw: np.random.Generator, n: int) -> bool:
    """The truth crosses at 3; luck of a seed is shared by its levels."""
    sizes = np.array([1.0, 2.0, 4.0, 8.0])
    curves = np.log(sizes / 3) + draw.normal(0, 0.2, (n, 1)) + draw.normal(0, 0.2, (n, 4))
    found = stats.crossing(sizes, curves)
    return found.low <= 3 <= found.high


def items(draw: np.random.Generator, n: int, seed_luck: float = 0.1, rest: float = 0.3) -> bool:
    """With these both lucks are alike, the hardest case for Satterthwaite's df."""
    d = draw.normal(0, seed_luck, (n, 1)) + draw.normal(0, 1.0, 300)
    low, high = stats.two_lucks(d + draw.normal(0, rest, (n, 300))).ends()
    return low <= 0 <= high


def shares(draw: np.random.Generator, n: int) -> bool:
    luck = draw.random(n)  # half of the seeds bring the same luck to both arms
    own = np.where(draw.random(n) < 0.5, luck, draw.random(n))
    low, high = stats.difference_ends(int((luck < 0.8).sum()) - int((own < 0.4).sum()), n)
    return low <= 0.4 <= high


def test_intervals_cover_the_truth_nineteen_times_in_twenty(effort: int) -> None:
    runs, rows = 600 * effort, []
    kinds = {
        "mean": (means, True),
        "difference of unpaired means": (unpaired, False),
        "exponent": (exponents, True),
        "crossing": (crossings, False),
        "new seeds and items, lucks alike": (items, False),
        "new seeds and items, seeds small": (partial(items, seed_luck=0.02, rest=1.0), False),
        "difference of shares": (shares, False),
    }
    for name, (covers, _) in kinds.items():
        random = np.random.default_rng(3)
        rows.append((name, *(sum(covers(random, n) for _ in range(runs)) / runs for n in SEEDS)))
    show("coverage of 95 % intervals at 3, 5, 10 seeds", rows)
    for name, *covered in rows:
        exact = kinds[name][1]
        for rate in covered:
            # Welch's and Satterthwaite's df are approximations: they may lack one point.
            assert rate >= 0.95 - error(0.95, runs) - (0.0 if exact else 0.01), name
            assert not exact or rate <= 0.95 + error(0.95, runs), name


def decided(distance: float, n: int, runs: int, *, equal: bool) -> float:
    """Share of experiments with n seeds of sd 1 that decide."""
    random, hits = np.random.default_rng(4), 0
    for _ in range(runs):
        if equal:
            found = stats.equal_within(stats.mean_of(random.normal(0, 1, n)), distance)
        else:
            found = stats.better_by(stats.mean_of(random.normal(distance, 1, n)), 0.0, "higher")
        hits += found.supports < 0.05
    return hits / runs


@pytest.mark.parametrize("equal", [False, True], ids=["higher", "equal"])
def test_the_seeds_needed_decide_four_times_in_five(effort: int, equal: bool) -> None:
    runs, rows = 500 * effort, []
    for distance in (0.5, 0.7, 1.0, 1.5):
        n = int(stats.seeds_needed(distance, 1.0, 1000, equal=equal).expected)
        rows.append((f"{distance} sd: {n} seeds", decided(distance, n, runs, equal=equal)))
    show("decided with the seeds needed for 80 %", rows)
    for name, rate in rows:
        assert 0.8 - error(0.8, runs) <= rate <= 0.9 + error(0.9, runs), name


def test_the_range_of_seeds_needed_holds_the_true_number_four_times_in_five(effort: int) -> None:
    runs, random, rows = 150 * effort, np.random.default_rng(5), []
    truth = stats.seeds_needed(0.6, 1.0, 1000).expected
    for n in SEEDS:
        found = [
            stats.seeds_needed(0.6, float(random.normal(size=n).std(ddof=1)), n)
            for _ in range(runs)
        ]
        held = float(np.mean([one.low <= truth <= one.high for one in found]))
        widths = np.median([one.low for one in found]), np.median([one.high for one in found])
        rows.append((f"after {n} seeds, truth {truth:.0f}", held, *map(float, widths)))
    show("range of seeds needed: holds the truth, median low, median high", rows)
    for name, held, *_ in rows:
        assert held >= 0.8 - error(0.8, runs), name


def is_higher(differences: Array) -> stats.Tested:
    return stats.better_by(stats.mean_of(differences), 0.0, "higher")


def test_stopping_early_saves_seeds_at_almost_the_same_decisions(effort: int) -> None:
    runs, random, rows = 150 * effort, np.random.default_rng(6), []
    for effect in (0.0, 0.5, 1.0, 2.0, 4.0, 8.0):
        looked, fixed, same, used = 0, 0, 0, 0
        for _ in range(runs):
            differences = random.normal(effect, 1.0, 10)
            early = stats.decide(stats.Planned(differences, is_higher))
            late = stats.decide(stats.Planned(differences, is_higher, TEN))
            looked += early.word == stats.SUPPORTED
            fixed += late.word == stats.SUPPORTED
            same += early.word == late.word
            used += early.n
        saved = 1 - used / (10 * runs)
        rows.append((f"{effect} sd", looked / runs, fixed / runs, same / runs, saved))
    show("supported with looks, with ten seeds, same word, seeds saved", rows)
    for name, looked, fixed, same, saved in rows:
        assert looked >= fixed - 0.15, name
        assert same >= 0.85, name
        assert saved >= 0.0
    assert rows[-1][4] >= 0.6, "eight standard deviations are seen at three seeds"
