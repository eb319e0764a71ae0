"""A launcher runs each job in a process of its own and tells what became of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from launching import fifo, job, outcomes, release
from worker_jobs import ERRORS

from ablations.launch import Job, Launcher, Outcome, Progress, failure
from ablations.launch.local import LocalLauncher
from ablations.train.device import how_many, settle

HERE = Path(__file__).parents[1]
LONG = 60.0  # seconds until a test gives up; none should come near it


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launcher]:
    monkeypatch.syspath_prepend(HERE)
    with LocalLauncher(2, preload=(), grace=LONG) as launcher:
        yield launcher


def test_each_job_has_a_process_and_a_group_of_its_own_and_its_threads(launcher: Launcher) -> None:
    found = outcomes(launcher, Job("a", "worker_jobs:who", {}, threads=2), job("b", "who"))
    a, b = found["a"].value, found["b"].value
    assert len({os.getpid(), a["pid"], b["pid"]}) == 3
    assert (a["group"], b["group"]) == (a["pid"], b["pid"])
    assert (a["threads"], b["threads"]) == ("2", "1")


def test_what_cannot_be_called_is_an_error_of_that_job(launcher: Launcher) -> None:
    jobs = (Job("a", "worker_jobs:absent", {}), Job("b", "absent_module:echo", {}))
    found = outcomes(launcher, *jobs)
    assert {name: outcome.status for name, outcome in found.items()} == dict.fromkeys("ab", "error")
    assert "has no attribute 'absent'" in (found["a"].reason or "")
    assert found["b"].reason == "ModuleNotFoundError: No module named 'absent_module'"


def test_memory_that_ran_out_is_told_from_other_errors() -> None:
    expected = {"memory": "oom", "accelerator": "oom", "allocator": "oom", "runtime": "error"}
    assert {name: failure("a", ERRORS[name]).status for name in expected} == expected


def test_a_job_that_is_deaf_to_being_told_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HERE)
    with LocalLauncher(1, preload=(), grace=0.2) as launcher:
        launcher.submit(job("a", "stubborn"))
        for event in launcher.events():
            if isinstance(event, Progress):
                launcher.cancel()
    assert isinstance(event, Outcome)
    assert (event.status, event.reason) == ("killed", "cancelled")


def test_a_value_larger_than_any_pipe_arrives_whole(launcher: Launcher) -> None:
    size = 5_000_000
    found = outcomes(launcher, job("a", "big", size=size), job("b", "big", size=size + 1))
    assert [len(found[name].value) for name in "ab"] == [size, size + 1]


def test_what_a_job_prints_reaches_no_terminal_but_explains_a_failure(
    launcher: Launcher, capfd: pytest.CaptureFixture[str]
) -> None:
    found = outcomes(
        launcher,
        job("a", "chatter", size=10_000, fail=True),
        job("b", "chatter", size=1, fail=False),
    )
    assert capfd.readouterr() == ("", "")
    output = (found["a"].detail or "").split("Output:\n")[1]
    assert output.endswith("xxx\nfrom Python\nto the error stream\nfrom a child\n")
    assert 1_900 < len(output) < 2_100
    assert found["b"].detail is None


def test_the_drivers_main_module_is_run_once_although_it_guards_nothing(tmp_path: Path) -> None:
    script = tmp_path / "driver.py"
    script.write_text(
        "print('main', flush=True)\n"
        "from ablations.launch import Job\n"
        "from ablations.launch.local import LocalLauncher\n"
        "with LocalLauncher(2, preload=()) as launcher:\n"
        "    for name in 'ab':\n"
        "        launcher.submit(Job(name, 'worker_jobs:echo', {'x': 1}))\n"
        "    print(*[event.status for event in launcher.events()])\n"
    )
    ran = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])},
        capture_output=True,
        text=True,
        timeout=LONG,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == ("main\ndone done\n", "")


# Jobs share accelerators as far as they say, and begin where the fewest others run.


def slots(
    launcher: LocalLauncher, folder: Path, shares: dict[str, float]
) -> list[tuple[str, str | None]]:
    """Jobs with these shares, of which one is let go as soon as all that run have begun: who began
    where, and who ended."""
    pipes = {name: fifo(folder, name) for name in shares}
    for name, share in shares.items():
        held = job(name, "hold_slot", fifo=pipes[name])
        launcher.submit(replace(held, accelerators=share))
    told: list[tuple[str, str | None]] = []
    held_back = list(shares)
    for event in launcher.events():
        told.append((event.job, event.note if isinstance(event, Progress) else None))
        begun = {name for name, slot in told if slot is not None}
        started = [name for name in held_back if name not in launcher._waiting]
        if started and begun >= set(started):
            held_back.remove(started[0])
            release(pipes[started[0]])
    return told


@pytest.mark.parametrize(
    ("capacity", "devices", "shares", "began", "after"),
    [
        (4, 2, dict.fromkeys("abcde", 0.0), {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0}, ["ae"]),
        (4, 2, {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5, "e": 1.0}, {"a": 0, "b": 1}, ["ae", "ce"]),
        (4, 2, {"a": 0.5, "b": 2.0, "c": 0.5}, {"a": 0, "b": 0, "c": 0}, ["ab", "bc"]),
        (3, 1, dict.fromkeys("abc", 1 / 3), dict.fromkeys("abc", 0), []),
        (2, 4, dict.fromkeys("abc", 2.0), {"a": 0, "b": 2, "c": 0}, ["ac"]),
    ],
    ids=["slots", "halves", "several", "thirds", "side by side"],
)
def test_jobs_begin_where_there_is_room_and_wait_where_there_is_none(
    capacity: int,
    devices: int,
    shares: dict[str, float],
    began: dict[str, int],
    after: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """`after` names pairs of which the second had to wait for the first."""
    monkeypatch.syspath_prepend(HERE)
    words = {"preload": (), "grace": 60.0, "devices": devices, "settle": "worker_jobs:take_slot"}
    with LocalLauncher(capacity, **words) as launcher:
        told = slots(launcher, tmp_path, shares)
    found = {name: int(slot) for name, slot in told if slot is not None}
    assert found.items() >= began.items()
    for first, second in after:
        assert told.index((first, None)) < told.index((second, str(found[second])))


def test_a_slot_means_an_accelerator_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    for slot in range(7):
        settle(slot)
    assert chosen == [0, 1, 2, 0, 1, 2, 0]


def test_a_run_has_all_accelerators_or_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 8)
    assert how_many(torch.device("cuda")) == 8
    assert how_many(torch.device("cuda:3")) == 1
