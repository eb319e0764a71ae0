"""How long a trial takes in each way that it can share a device: steps that workers take."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from in_process import InProcess
from launching import job

import ablations.sweep.time_ways
from ablations.plan.wanted import Want, make_plan
from ablations.plan.ways import Way
from ablations.sweep.launch import Job, Outcome
from ablations.sweep.launch.local import LocalLauncher
from ablations.sweep.time_ways import (
    Meeting,
    all_values,
    mean_seconds,
    seconds_a_trial,
    stopwatch,
)

Ask = Callable[..., str]
CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("server")


def small(ask: Ask, **overrides: Any) -> Want:
    return next(iter(make_plan([ask()], "smoke", overrides, [0]).wanted.values()))


def test_steps_are_taken_in_workers_and_what_is_too_large_has_no_time(ask: Ask) -> None:
    with LocalLauncher(2) as launcher:
        clock = stopwatch(launcher, "cpu", 1, [], span=0.0)
        for way in (Way(1), Way(2), Way(1, 2)):
            seconds = clock(small(ask), way)
            assert seconds is not None
            assert 0 < seconds < 100
        assert clock(small(ask, **{"model.d_model": 1_000_000}), Way(2)) is None


def test_workers_for_whom_there_is_no_room_at_once_do_not_wait_for_each_other(ask: Ask) -> None:
    """One job at a time, on two devices."""
    with LocalLauncher(1) as launcher:
        assert stopwatch(launcher, "cpu", 2, [], span=0.0)(small(ask), Way(1)) is not None


@pytest.mark.parametrize(
    ("device", "devices", "way", "share", "jobs"),
    [
        ("cpu", 1, Way(1, 2), 0.0, 2),
        ("cuda", 1, Way(1, 4), 0.25, 4),
        ("cuda", 2, Way(3, 2), 0.5, 4),
        ("cuda:1", 1, Way(3), 1.0, 1),
    ],
)
def test_as_many_workers_as_a_way_has_are_at_work_on_every_device(
    ask: Ask, here: InProcess, device: str, devices: int, way: Way, share: float, jobs: int
) -> None:
    """Each takes its seconds; a device has as many trials in that time as workers."""
    told = iter([10.0, 14.0, 10.0, 14.0])

    def work(job: Job, _report: object) -> Outcome:
        assert job.payload["packed"] == way.packed
        return Outcome(job.id, "done", next(told))

    here.work = work  # type: ignore[method-assign]
    seconds = stopwatch(here, device, devices, [])(small(ask), way)
    assert seconds == (10.0 if jobs == 1 else 12.0) / way.workers
    assert [job.accelerators for job in here.jobs] == [share] * jobs
    assert {job.payload["device"] for job in here.jobs} == {device}


@pytest.mark.parametrize("packed", [1, 3])
def test_a_trial_has_its_share_of_the_steps_and_looks_of_its_pack(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, packed: int
) -> None:
    """Four steps, a look before them and one after every second."""
    calls: list[object] = []

    def clock(
        call: Callable[[], object], _device: torch.device, _span: float, meet: Callable[[], None]
    ) -> float:
        meet()
        calls.append(call())
        return 10.0 if len(calls) == 1 else 1.0

    monkeypatch.setattr(ablations.sweep.time_ways, "mean_seconds", clock)
    alone = Meeting(tmp_path, 0, 1)
    seconds = seconds_a_trial(small(ask).config, packed, CPU, 0.0, alone)
    assert seconds == pytest.approx((4 * 10.0 + 3 * 1.0) / packed)
    norms, losses = calls
    assert isinstance(norms, torch.Tensor)
    assert norms.numel() == packed
    assert len(losses if isinstance(losses, list) else [losses]) == packed


def test_calls_are_counted_until_their_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(
        ablations.sweep.time_ways, "time", SimpleNamespace(perf_counter=lambda: now[0])
    )
    made: list[float] = []

    def call() -> None:
        now[0] += 100.0 if len(made) < 3 else 2.0  # the first load and compile
        made.append(now[0])

    def wait() -> None:
        now[0] += 1_000.0  # for the others, which costs no call anything
        met.append(len(made))

    met: list[int] = []
    assert mean_seconds(call, CPU, 9.0, wait) == 2.0
    assert len(made) == 3 + 5
    assert mean_seconds(call, CPU, 0.0, wait) == 2.0
    assert len(made) == 8 + 3 + 3
    assert met == [3, 8 + 3]  # all have made their first calls by then


def test_nobody_begins_before_all_have_come(tmp_path: Path) -> None:
    meetings = [Meeting(tmp_path, number, 3) for number in range(3)]
    begun: list[int] = []

    def attend(meeting: Meeting) -> None:
        meeting.wait("steps")
        begun.append(len([*tmp_path.glob("steps-*")]))

    first = [threading.Thread(target=attend, args=(each,)) for each in meetings[:2]]
    for thread in first:
        thread.start()
    meetings[0].folder.joinpath("looks-2").touch()  # who is elsewhere does not count
    attend(meetings[2])
    for thread in first:
        thread.join()
    assert begun == [3, 3, 3]


def test_where_one_worker_fails_the_others_do_not_wait_for_it() -> None:
    with LocalLauncher(2, preload=()) as launcher:
        waits, fails = job("a", "polite"), job("b", "fail", error="memory")
        assert all_values(launcher, [waits, fails]) is None
        assert all_values(launcher, [job("c", "echo")]) == [{}]
