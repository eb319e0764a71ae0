"""What a plan will cost: time from measured steps, disk from sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ablations.estimate
from ablations.estimate import (
    DAY,
    days_ahead,
    disk,
    free_disk,
    in_bytes,
    seconds_each,
    seconds_per_step,
)
from ablations.plan import Plan, Want, make_plan
from ablations.record import Record, Results

Ask = Callable[..., str]
CPU = torch.device("cpu")


@pytest.fixture
def plan(ask: Ask) -> Plan:
    """Two small variants and one that is twice as long, two seeds each."""
    variants = {"with": {}, "without": {"model.position": "none"}, "long": {"train.steps": 8}}
    return make_plan([ask(variants=variants)], "smoke", {}, [0, 1])


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out")


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The trials whose step was measured: it took half a second."""
    found: list[str] = []

    def measure(want: Want, device: torch.device) -> float:
        found.append(want.title)
        return 0.5

    monkeypatch.setattr(ablations.estimate, "seconds_per_step", measure)
    return found


def test_a_step_takes_time_and_leaves_chance_as_it_was(plan: Plan) -> None:
    before = torch.get_rng_state()
    assert 0 < seconds_per_step(next(iter(plan.wanted.values())), CPU) < 10
    assert torch.equal(torch.get_rng_state(), before)


def test_a_variant_is_measured_once_for_all_its_seeds(plan: Plan, measured: list[str]) -> None:
    assert seconds_each(list(plan.wanted.values()), CPU, most=10) == [2.0, 2.0, 2.0, 2.0, 4.0, 4.0]
    assert [title.rpartition(":")[2] for title in measured] == [
        "with seed 0", "without seed 0", "long seed 0",
    ]  # fmt: skip


def test_of_a_large_grid_few_are_measured_and_the_others_compared(
    plan: Plan, measured: list[str]
) -> None:
    assert seconds_each(list(plan.wanted.values()), CPU, most=0) == pytest.approx(
        [2, 2, 2, 2, 4, 4]
    )
    assert len(measured) == 1


def test_where_no_machine_needs_a_day_nothing_is_measured(
    plan: Plan, results: Results, measured: list[str]
) -> None:
    assert days_ahead(plan, results, CPU, jobs=1) == 0.0
    assert measured == []


def test_days_are_told_of_what_is_not_done_yet(
    ask: Ask, results: Results, measured: list[str]
) -> None:
    plan = make_plan([ask()], "smoke", {"train.steps": 10**9}, [0])
    assert days_ahead(plan, results, CPU, jobs=2) == 10**9 * 0.5
    for trial in plan.wanted:
        results.write(Record(trial, "ok", {}))
    assert days_ahead(plan, results, CPU, jobs=2) == 0.0
    assert DAY < 10**9 * 0.5


def test_what_only_a_slow_machine_needs_a_day_for_is_measured_and_not_told(
    ask: Ask, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.estimate, "seconds_per_step", lambda *_: 1e-6)
    plan = make_plan([ask()], "smoke", {"train.steps": 10**9}, [0])
    assert days_ahead(plan, results, CPU, jobs=1) == 0.0


def test_disk_is_taken_by_weights_records_and_trainings_in_progress(
    plan: Plan, results: Results
) -> None:
    wants = list(plan.wanted.values())
    weights = [4 * want.parameters for want in wants]
    assert all(want.parameters > 1000 for want in wants)
    two = 2 * 3 * sum(sorted(weights)[-2:])  # weights and two moments, now and before
    expected = sum(weights) + 6 * ablations.estimate.RECORD + two
    assert disk(wants, results, jobs=2) == expected
    assert disk([], results, jobs=2) == 0


def test_records_that_are_there_tell_how_large_others_will_be(plan: Plan, results: Results) -> None:
    want = next(iter(plan.wanted.values()))
    before = disk([want], results, jobs=1)
    results.write(Record("a" * 12, "ok", {}, reason="x" * 200_000))
    assert disk([want], results, jobs=1) - before > 130_000


def test_a_folder_that_is_not_there_yet_has_the_room_of_the_one_above(tmp_path: Path) -> None:
    assert free_disk(tmp_path / "not" / "yet") == pytest.approx(free_disk(tmp_path), rel=0.1)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0.0 kB"), (820, "0.8 kB"), (31_400, "31 kB"), (3_210_000, "3.2 MB"), (14e9, "14 GB"),
     (5e12, "5,000 GB")],
)  # fmt: skip
def test_a_size_is_told_as_one_would_say_it(size: Any, words: str) -> None:
    assert in_bytes(size) == words
