"""What the intervals promise, counted over many simulated experiments."""

from __future__ import annotations

import numpy as np
import pytest

from analysis import stats


@pytest.mark.soak
@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_a_95_percent_interval_covers_the_truth_95_times_in_100(seeds: int) -> None:
    draw = np.random.default_rng(0)
    runs, truth = 20_000, 0.3
    covered = 0
    for _ in range(runs):
        shared = draw.normal(size=seeds)  # what pairing removes
        difference = stats.paired(shared + truth + draw.normal(size=seeds), shared)
        covered += difference.low <= truth <= difference.high
    assert covered / runs == pytest.approx(0.95, abs=0.006)


@pytest.mark.soak
def test_without_any_effect_holm_names_a_winner_once_in_twenty_times() -> None:
    draw = np.random.default_rng(1)
    runs, seeds, variants = 5_000, 5, 4
    false = 0
    for _ in range(runs):
        control = draw.normal(size=seeds)
        p = [stats.paired(draw.normal(size=seeds), control).p for _ in range(variants)]
        false += min(stats.holm(p)) < 0.05
    assert false / runs <= 0.055
