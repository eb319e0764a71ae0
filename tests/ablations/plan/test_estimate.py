"""What a plan will cost: time from measured steps, disk from sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
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
    known_times,
    seconds_each,
    side_by_side,
)
from ablations.plan.wanted import Plan, Want, make_plan
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.train.device import device_name

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


class Stopwatch:
    """A clock for which a step takes half a second, unless it is too large."""

    def __init__(self, too_large: str = "none") -> None:
        self.asked: list[str] = []
        self._too_large = too_large

    def __call__(self, wants: Sequence[Want]) -> list[float | None]:
        labels = [want.title.rpartition(":")[2] for want in wants]
        self.asked += labels
        return [
            None if self._too_large in label else 0.5 * want.config["train"]["steps"]
            for label, want in zip(labels, wants, strict=True)
        ]


@pytest.fixture
def clock() -> Stopwatch:
    return Stopwatch()


@pytest.mark.parametrize(
    ("each", "at_once", "seconds"),
    [([], 2, 0), ([48], 1, 48), ([48], 2, 48), ([48], 4, 48), ([3, 2, 1], 2, 3), ([2] * 8, 2, 8),
     ([5, 5, 5, 50], 4, 50)],
)  # fmt: skip
def test_trials_side_by_side_take_no_less_than_the_longest(
    each: list[float], at_once: int, seconds: float
) -> None:
    assert side_by_side(each, at_once) == seconds


def test_a_variant_is_measured_once_for_all_its_seeds(plan: Plan, clock: Stopwatch) -> None:
    each = seconds_each(list(plan.wanted.values()), clock, most=10)
    assert each == [2.0, 2.0, 2.0, 2.0, 4.0, 4.0]
    assert clock.asked == ["with seed 0", "without seed 0", "long seed 0"]


@pytest.mark.parametrize("most", [0, 1, 10])
def test_what_is_too_large_to_be_measured_has_no_time_and_the_others_have_theirs(
    plan: Plan, most: int
) -> None:
    clock = Stopwatch(too_large="with ")
    each = seconds_each(list(plan.wanted.values()), clock, most)
    assert each == [None, None, pytest.approx(2.0), pytest.approx(2.0), 4.0, 4.0]


def made_here(want: Want, status: str = "ok", **env: Any) -> Record:
    env = {"code": want.code, "device": device_name(CPU), **env}
    reason = None if status == "ok" else "full"
    taken = {name: want.measure_code(name) for name in want.measures}
    return Record(want.trial, status, want.config, reason, env=env, measures=taken)


def test_times_that_records_hold_come_before_any_step(
    plan: Plan, results: Results, clock: Stopwatch
) -> None:
    """The same settings took 30 s here; on the same task the others take as long for their size."""
    wants = list(plan.wanted.values())
    results.write(made_here(wants[0], seconds=30.0))
    known = known_times(plan, results, CPU)
    assert seconds_each(wants[1:], clock, 10, known) == pytest.approx([30, 30, 30, 60, 60])
    assert clock.asked == []


@pytest.mark.parametrize(
    ("status", "env"),
    [("ok", {"seconds": 30.0, "device": "cpu (another)"}), ("ok", {}), ("error", {"seconds": 0.1}),
     ("diverged", {"seconds": 0.1})],
)  # fmt: skip
def test_a_time_that_says_nothing_of_a_training_here_is_passed_over(
    plan: Plan, results: Results, clock: Stopwatch, status: str, env: dict[str, Any]
) -> None:
    wants = list(plan.wanted.values())
    results.write(made_here(wants[0], status, **env))
    results.trials.joinpath(f"{wants[1].trial}.json").write_text("{")
    known = known_times(plan, results, CPU)
    assert seconds_each(wants, clock, 10, known)[0] == 2.0
    assert len(clock.asked) == 3


def test_what_was_only_probed_says_nothing_of_how_long_training_takes(
    ask: Ask, results: Results
) -> None:
    """It has no work to divide its seconds by."""
    probed = ask(measures=["permutation"], metric="permutation_gap")
    plan = make_plan([probed], "smoke", {}, [0])
    (want, *_) = plan.wanted.values()
    results.write(replace(made_here(want, seconds=0.3), trained=False))
    assert known_times(plan, results, CPU).rates == {}


def test_what_was_too_large_here_earlier_is_not_tried_for_its_time(
    plan: Plan, results: Results, clock: Stopwatch
) -> None:
    wants = list(plan.wanted.values())
    results.write(made_here(wants[0], "oom", device="cpu"))
    each = seconds_each(wants, clock, 10, known_times(plan, results, CPU))
    assert each == [None, None, 2.0, 2.0, 4.0, 4.0]
    assert clock.asked == ["without seed 0", "long seed 0"]


def test_what_no_memory_holds_is_not_tried_though_the_rate_of_its_task_is_known(
    ask: Ask, results: Results, clock: Stopwatch
) -> None:
    variants = {"with": {}, "huge": {"model.d_model": 1_000_000}}
    plan = make_plan([ask(variants=variants)], "smoke", {}, [0])
    small, huge = plan.wanted.values()
    results.write(made_here(small, seconds=30.0))
    assert seconds_each([huge], clock, 10, known_times(plan, results, CPU)) == [None]
    assert clock.asked == []


def test_of_a_large_grid_few_are_measured_and_the_others_compared(
    plan: Plan, clock: Stopwatch
) -> None:
    each = seconds_each(list(plan.wanted.values()), clock, most=0)
    assert each == pytest.approx([2, 2, 2, 2, 4, 4])
    assert len(clock.asked) == 1


def test_tasks_that_differ_in_an_option_are_compared_by_size_too(
    ask: Ask, clock: Stopwatch
) -> None:
    """Or a grid over a task's options would be measured whole."""
    levels = {str(words): {"task.words": words} for words in range(100, 150, 10)}
    plan = make_plan([ask(across={"words": levels})], "smoke", {}, [0])
    each = seconds_each(list(plan.wanted.values()), clock, most=2)
    assert each == pytest.approx([2.0] * 10)
    assert len(clock.asked) == 2


def test_where_no_machine_needs_a_day_nothing_is_measured(
    plan: Plan, results: Results, clock: Stopwatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ablations.plan.estimate, "missing", None)  # nor is any record read
    assert days_ahead(plan, results, None, CPU, 1, clock) == 0.0
    assert clock.asked == []


@pytest.fixture
def long_plan(ask: Ask) -> Plan:
    """Two trials of many days, at half a second a step."""
    return make_plan([ask()], "smoke", {"train.steps": LONG}, [0])


LONG = 10**9


@pytest.mark.parametrize(("at_once", "seconds"), [(1, LONG), (2, LONG / 2), (16, LONG / 2)])
def test_days_are_told_however_many_trials_run_at_once(
    long_plan: Plan, results: Results, clock: Stopwatch, at_once: int, seconds: float
) -> None:
    assert days_ahead(long_plan, results, None, CPU, at_once, clock) == seconds > DAY


def test_of_what_takes_days_the_largest_may_be_too_large(long_plan: Plan, results: Results) -> None:
    clock = Stopwatch(too_large="with ")
    assert days_ahead(long_plan, results, None, CPU, 1, clock) == LONG / 2


def test_days_are_told_of_what_is_to_be_trained(
    long_plan: Plan, results: Results, clock: Stopwatch
) -> None:
    """What is done takes none, unless it is made anew; what is damaged does."""
    stale, failed = long_plan.wanted.values()
    done = {"config": {}, "measures": {"quality": stale.measure_code("quality")}}
    results.write(Record(stale.trial, "ok", env={"code": {"model/norm.py": "other"}}, **done))
    results.write(Record(failed.trial, "oom", env={"code": failed.code}, reason="full", **done))

    def ahead(rerun: str | None) -> float:
        return days_ahead(long_plan, results, rerun, CPU, 1, clock)

    assert [ahead(rerun) for rerun in (None, "stale", "failed")] == [0, LONG / 2, LONG / 2]
    assert clock.asked == ["with seed 0", "without seed 0"]
    results.path(stale.trial).write_bytes(b"")
    assert ahead(None) == LONG / 2
    assert results.path(stale.trial).exists()  # a look sets nothing aside


def test_what_only_a_slow_machine_needs_a_day_for_is_measured_and_not_told(
    long_plan: Plan, results: Results
) -> None:
    assert days_ahead(long_plan, results, None, CPU, 1, lambda wants: [1e3] * len(wants)) == 0.0


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
