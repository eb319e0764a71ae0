"""What a plan will cost: time from measured steps, disk from sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import ablations.plan.estimate
from ablations.plan.estimate import (
    DAY,
    days_ahead,
    disk,
    free_disk,
    in_bytes,
    quickest,
    seconds_each,
    seconds_to_train,
    side_by_side,
)
from ablations.plan.wanted import Plan, Want, make_plan
from ablations.store.frozen import freeze
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.tasks.cache import load_task

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
    """The trials that were measured: a step took half a second, and evaluating nothing."""
    found: list[str] = []

    def measure(want: Want, device: torch.device) -> float:
        found.append(want.title)
        return 0.5 * float(want.config["train"]["steps"])

    monkeypatch.setattr(ablations.plan.estimate, "seconds_to_train", measure)
    return found


def test_training_takes_time_and_leaves_chance_as_it_was(plan: Plan) -> None:
    before = torch.get_rng_state()
    assert 0 < seconds_to_train(next(iter(plan.wanted.values())), CPU) < 10
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("evaluations", "looks"), [(1, 2), (3, 4), (50, 5)])
def test_training_takes_its_steps_and_its_looks_at_the_validation_split(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, evaluations: int, looks: int
) -> None:
    """One look before the first of four steps, and no more than one after each."""
    asked = {"train.evaluations": evaluations, "task.words": 3000, "task.valid_words": 1500}
    (want, *_) = make_plan([ask()], "smoke", asked, [0]).wanted.values()
    batches = len(load_task(freeze(want.config["task"])).evaluation_batches("valid"))
    assert batches > 1
    was_learning: list[bool] = []

    def clock(call: Callable[[], object], device: torch.device) -> float:
        call()
        was_learning.append(not torch.is_inference_mode_enabled())
        return 10.0 if was_learning[-1] else 1.0

    monkeypatch.setattr(ablations.plan.estimate, "quickest", clock)
    assert seconds_to_train(want, CPU) == 4 * 10.0 + looks * batches * 1.0
    assert was_learning == [True, False]


def test_the_quickest_of_three_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 9.0, 10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(ablations.plan.estimate.time, "perf_counter", lambda: next(times))
    assert quickest(lambda: None, CPU) == 2.0


@pytest.mark.parametrize(
    ("each", "at_once", "seconds"),
    [([], 2, 0), ([48], 1, 48), ([48], 2, 48), ([48], 4, 48), ([3, 2, 1], 2, 3), ([2] * 8, 2, 8),
     ([5, 5, 5, 50], 4, 50)],
)  # fmt: skip
def test_trials_side_by_side_take_no_less_than_the_longest(
    each: list[float], at_once: int, seconds: float
) -> None:
    assert side_by_side(each, at_once) == seconds


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
    plan: Plan, results: Results, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.plan.estimate, "missing", None)  # nor is any record read
    assert days_ahead(plan, results, None, CPU, 1) == 0.0
    assert measured == []


@pytest.fixture
def long_plan(ask: Ask) -> Plan:
    """Two trials of many days, at half a second a step."""
    return make_plan([ask()], "smoke", {"train.steps": LONG}, [0])


LONG = 10**9


@pytest.mark.parametrize(("at_once", "seconds"), [(1, LONG), (2, LONG / 2), (16, LONG / 2)])
def test_days_are_told_however_many_trials_run_at_once(
    long_plan: Plan, results: Results, measured: list[str], at_once: int, seconds: float
) -> None:
    assert days_ahead(long_plan, results, None, CPU, at_once) == seconds > DAY


def test_days_are_told_of_what_is_to_be_trained(
    long_plan: Plan, results: Results, measured: list[str]
) -> None:
    """What is done takes none, unless it is made anew; what is damaged does."""
    stale, failed = long_plan.wanted.values()
    done = {"config": {}, "measures": {"quality": stale.measure_code("quality")}}
    results.write(Record(stale.trial, "ok", env={"code": {"model/norm.py": "other"}}, **done))
    results.write(Record(failed.trial, "oom", env={"code": failed.code}, reason="full", **done))

    def ahead(rerun: str | None) -> float:
        return days_ahead(long_plan, results, rerun, CPU, 1)

    assert [ahead(rerun) for rerun in (None, "stale", "failed")] == [0, LONG / 2, LONG / 2]
    assert [title.rpartition(":")[2] for title in measured] == ["with seed 0", "without seed 0"]
    results.path(stale.trial).write_bytes(b"")
    assert ahead(None) == LONG / 2
    assert results.path(stale.trial).exists()  # a look sets nothing aside


def test_what_only_a_slow_machine_needs_a_day_for_is_measured_and_not_told(
    long_plan: Plan, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.plan.estimate, "seconds_to_train", lambda *_: 1e3)
    assert days_ahead(long_plan, results, None, CPU, 1) == 0.0


def test_disk_is_taken_by_weights_records_and_trainings_in_progress(
    plan: Plan, results: Results
) -> None:
    wants = list(plan.wanted.values())
    weights = [4 * want.parameters for want in wants]
    assert all(want.parameters > 1000 for want in wants)
    two = 2 * 3 * sum(sorted(weights)[-2:])  # weights and two moments, now and before
    expected = sum(weights) + 6 * ablations.plan.estimate.RECORD + two
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
