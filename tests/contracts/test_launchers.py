"""Every launcher keeps every contract, as Launcher and Outcome in ablations/launch promise it.

A new launcher is one line in LAUNCHERS. A job is one of the functions in
tests/ablations/worker_jobs.py.
"""

from __future__ import annotations

import os
import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess
from launching import job, outcomes, ray_cluster
from task_subjects import failures
from toy_slurm import ToySlurm
from watching import Watch

from ablations.launch import Outcome, Progress
from ablations.launch.local import LocalLauncher
from ablations.launch.ray import RayLauncher
from ablations.launch.slurm import SlurmLauncher, SlurmProfile

Start = Callable[[], Any]  # opens a launcher
Check = Callable[[Start], None]
NESTED: dict[str, Any] = {"rate": 1e-3, "names": ["a", "ü\n"], "none": None, "list": [1]}


def reports_each_job_once_and_last_and_keeps_to_its_capacity(start: Start) -> None:
    """All progress in its order, then one outcome, for every job; never more at once than fit."""
    running: set[str] = set()
    with start() as launcher:
        names = [str(number) for number in range(launcher.capacity + 1)]
        for name in names:
            launcher.submit(job(name, "count", steps=3))
        events = []
        for event in launcher.events():
            events.append(event)
            (running.add if isinstance(event, Progress) else running.discard)(event.job)
            assert len(running) <= launcher.capacity, "more jobs at once than it has room for"
    ended = Counter(event.job for event in events if isinstance(event, Outcome))
    assert ended == Counter(names), f"outcomes of jobs: {dict(ended)}"
    for name in names:
        *progress, last = [event for event in events if event.job == name]
        assert isinstance(last, Outcome), "progress after the outcome"
        steps = [Progress(name, step / 3, f"step {step}") for step in range(3)]
        assert progress == steps, f"progress of a job: {progress}"


def takes_jobs_while_it_is_read(start: Start) -> None:
    with start() as launcher:
        launcher.submit(job("a", "echo"))
        ended: list[str] = []
        for event in launcher.events():
            ended.append(event.job)
            if len(ended) == 1:
                launcher.submit(job("a", "echo"))  # the first has ended, so the id is free
        assert ended == ["a", "a"], f"a job, and one more while events were read: {ended} ran"
        assert list(launcher.events()) == [], "they go on when nothing is left"


def reports_the_kind_of_each_failure(start: Start) -> None:
    """An exception in one line."""
    expected = {"value": "error", "memory": "oom", "exit": "error"}
    with start() as launcher:
        found = outcomes(launcher, *(job(error, "fail", error=error) for error in expected))
    statuses = {error: outcome.status for error, outcome in found.items()}
    assert statuses == expected, f"errors are told as {statuses}"
    failed = found["value"]
    assert failed.reason == "ValueError: width 7 is not divisible by 2"
    assert "worker_jobs.py" in (failed.detail or ""), "no word of where an exception was raised"


def carries_plain_json_and_makes_an_error_of_any_other_value(start: Start) -> None:
    """What is submitted and returned is text in between: nobody shares an object."""
    payload = {**NESTED, "list": [1], "pair": (1, 2)}
    with start() as launcher:
        launcher.submit(job("shapeless", "shapeless"))
        launcher.submit(job("a", "echo", **payload))
        payload["list"].append("added after it was submitted")
        found = {event.job: event for event in launcher.events() if isinstance(event, Outcome)}
        with pytest.raises(TypeError, match="JSON"):
            launcher.submit(job("b", "echo", value=object()))
    value = found["a"].value
    assert value == {**NESTED, "pair": [1, 2]}, f"a payload arrived as {value}"
    failed = found["shapeless"]
    assert failed.status == "error", "a value that is no JSON"
    assert "JSON" in (failed.reason or "")


def cancels_waiting_jobs(start: Start) -> None:
    with start() as launcher:
        for name in "ab":
            launcher.submit(job(name, "echo"))
        launcher.cancel()
        told = {event.job: event.status for event in launcher.events()}
    assert told == dict.fromkeys("ab", "killed"), f"both jobs cancelled: {told}"


def is_done_once_it_is_closed(start: Start) -> None:
    launcher = start()
    launcher.submit(job("a", "echo"))
    launcher.close()
    launcher.close()  # again: no mistake
    assert list(launcher.events()) == [], "jobs run after it was closed"


def carries_the_files_of_a_job(start: Start) -> None:
    """What is there goes to the job, and what it writes comes back, before its outcome is told."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = (Path(folder, name) for name in ("given", "made"))
        given.write_text("as it was")
        carried = job("a", "revise", given=str(given), made=str(made))
        with start() as launcher:
            done = outcomes(launcher, replace(carried, files=("given", "made")))["a"]
            found = [path.read_text() if path.exists() else None for path in (given, made)]
        assert done.value == "as it was", f"a job found {done.value!r}"
        assert found == ["as it is now", "new"], f"of what a job wrote, {found} came back"


# Where a job has a process of its own.


def reports_a_killed_job(start: Start) -> None:
    with start() as launcher:
        killed = outcomes(launcher, job("a", "die", signal=signal.SIGKILL.value))["a"]
    assert (killed.status, (killed.reason or "")[:7]) == ("killed", "SIGKILL")


def ends_a_job_at_its_time_limit(start: Start) -> None:
    """With all that the job had started."""
    with start() as launcher, Watch() as watch:
        launcher.submit(job("a", "parent", seconds=1.5))
        for event in launcher.events():
            if isinstance(event, Progress):
                watch.add(*map(int, event.note.split()))
            else:
                late = event.status
        assert late == "timeout", f"a late job is {late}"
        left = len(watch.alive())
        assert not left, f"a job out of time left {left} processes running"


def cancels_a_running_job_and_keeps_what_it_returns(start: Start) -> None:
    with start() as launcher:
        launcher.submit(job("a", "polite"))
        for event in launcher.events():
            if isinstance(event, Progress):
                launcher.cancel()
            else:
                ended = event
    assert ended.status == "killed", f"a running job that is cancelled is {ended.status}"
    assert ended.reason, "a cancelled job has no reason"
    assert ended.value == "what there was so far"


def leaves_nothing_running_when_closed(start: Start) -> None:
    with start() as launcher, Watch() as watch:
        launcher.submit(job("a", "parent", seconds=20.0))
        progress = next(iter(launcher.events()))
        assert isinstance(progress, Progress)
        watch.add(*map(int, progress.note.split()))
        launcher.close()
        left = len(watch.alive())
        assert not left, f"it left {left} processes running"


OF_ALL: tuple[Check, ...] = (
    reports_each_job_once_and_last_and_keeps_to_its_capacity,
    takes_jobs_while_it_is_read,
    reports_the_kind_of_each_failure,
    carries_plain_json_and_makes_an_error_of_any_other_value,
    cancels_waiting_jobs,
    carries_the_files_of_a_job,
)
OF_CLOSING: tuple[Check, ...] = (is_done_once_it_is_closed,)
OF_PROCESSES: tuple[Check, ...] = (  # which are waited for by Linux pidfds
    reports_a_killed_job,
    ends_a_job_at_its_time_limit,
    cancels_a_running_job_and_keeps_what_it_returns,
)
OF_CLOSING_PROCESSES: tuple[Check, ...] = (leaves_nothing_running_when_closed,)


def local(_: Path | None = None) -> LocalLauncher:
    return LocalLauncher(2, preload=(), grace=2.0)


def on_ray(_: Path) -> RayLauncher:
    return RayLauncher(2, ray_cluster().address, imports=["worker_jobs"], preload=())


def slurm(folder: Path) -> SlurmLauncher:
    """On whatever Slurm the path leads to."""
    return SlurmLauncher(Path(tempfile.mkdtemp(dir=folder)), SlurmProfile(grace=2.0), 2, poll=0.02)


def here(_: Path) -> InProcess:
    return InProcess()


LAUNCHERS: list[Any] = [
    pytest.param(local, id="local"),
    pytest.param(on_ray, id="ray", marks=pytest.mark.xdist_group("ray")),
    pytest.param(slurm, id="slurm"),
    pytest.param(here, id="in_process"),
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_keeps_every_contract(
    launcher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(ToySlurm(tmp_path).install()), prepend=os.pathsep)
    can_watch = launcher is not here and hasattr(os, "pidfd_open")
    with local() as held:  # the server that local workers come from is started once
        held.submit(job("first", "echo"))
        checks = OF_ALL + (OF_PROCESSES if can_watch else ())
        with launcher(tmp_path) as shared:
            problems = failures(checks, lambda: nullcontext(shared))
        checks = OF_CLOSING + (OF_CLOSING_PROCESSES if can_watch else ())
        assert not problems + failures(checks, partial(launcher, tmp_path))
