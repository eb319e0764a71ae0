"""What a launcher owes, wherever its jobs run; said at Launcher and Outcome in sweep/launch.

A job is one of the functions in tests/ablations/worker_jobs.py.
"""

from __future__ import annotations

import signal
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher_subjects import LauncherSubject
from launching import job, outcomes
from watching import Watch

from ablations.sweep.launch import Event, Outcome, Progress

Check = Callable[[LauncherSubject], None]
NESTED: dict[str, Any] = {
    "depth": 2,
    "rate": 1e-3,
    "names": ["a", "ü\n"],
    "none": None,
    "list": [1],
}


def tells_each_job_once_and_last(subject: LauncherSubject) -> None:
    """All progress in its order, then one outcome, for every job."""
    names = ["a", "b", "c", "d"]
    with subject.open() as launcher:
        for name in names:
            launcher.submit(job(name, "count", steps=3))
        events = list(launcher.events())
    ended = Counter(event.job for event in events if isinstance(event, Outcome))
    assert ended == Counter(names), f"outcomes of jobs: {dict(ended)}"
    for name in names:
        *progress, last = [event for event in events if event.job == name]
        assert isinstance(last, Outcome), "progress after the outcome"
        steps = [Progress(name, step / 3, f"step {step}") for step in range(3)]
        assert progress == steps, f"progress of a job: {progress}"


def keeps_to_its_capacity(subject: LauncherSubject) -> None:
    running: set[str] = set()
    with subject.open() as launcher:
        for number in range(launcher.capacity + 2):
            launcher.submit(job(str(number), "count", steps=2))
        for event in launcher.events():
            running = (
                running | {event.job} if isinstance(event, Progress) else running - {event.job}
            )
            assert len(running) <= launcher.capacity, (
                f"{len(running)} jobs at once, of {launcher.capacity} that it has"
            )


def refuses_an_id_twice(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        launcher.submit(job("a", "echo"))
        told = _refusal(lambda: launcher.submit(job("a", "echo")))
        assert "'a'" in told, f"a second job of one id is met with {told!r}"
        ended = [event.job for event in launcher.events()]
        assert ended == ["a"], f"a refused job ran all the same: {ended}"
        launcher.submit(job("a", "echo"))  # the first has ended, so the id is free
        assert [event.job for event in launcher.events()] == ["a"]


def tells_an_exception_in_one_line(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        failed = outcomes(launcher, job("a", "fail", error="value"))["a"]
    assert failed.status == "error", f"an exception is {failed.status}"
    assert failed.reason == "ValueError: width 7 is not divisible by 2", (
        f"the reason of an exception is {failed.reason!r}"
    )
    assert "worker_jobs.py" in (failed.detail or ""), (
        "the detail of an exception does not say where it was raised"
    )


def tells_memory_that_ran_out(subject: LauncherSubject) -> None:
    expected = {
        "memory": "oom", "accelerator": "oom", "allocator": "oom", "runtime": "error",
        "exit": "error",
    }  # fmt: skip
    with subject.open() as launcher:
        found = outcomes(launcher, *(job(error, "fail", error=error) for error in expected))
    statuses = {error: outcome.status for error, outcome in found.items()}
    assert statuses == expected, f"errors are told as {statuses}"


def carries_plain_json(subject: LauncherSubject) -> None:
    """What is submitted and returned is text in between: nobody shares an object."""
    payload = {**NESTED, "list": [1], "pair": (1, 2)}
    with subject.open() as launcher:
        launcher.submit(job("a", "echo", **payload))
        payload["list"].append("added after it was submitted")
        (done,) = [event for event in launcher.events() if isinstance(event, Outcome)]
        told = _refusal(lambda: launcher.submit(job("b", "echo", value=object())))
    assert done.value == {**NESTED, "pair": [1, 2]}, f"a payload arrived as {done.value}"
    assert "JSON" in told, f"a payload that is no JSON is met with {told!r}"


def makes_an_error_of_a_value_that_is_no_json(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        launcher.submit(job("a", "shapeless"))
        launcher.submit(job("b", "echo"))
        try:
            found = {event.job: event for event in launcher.events()}
        except TypeError as error:
            raise AssertionError(f"events end in {error}") from None
    shapeless = found["a"]
    assert isinstance(shapeless, Outcome)
    assert (shapeless.status, "JSON" in (shapeless.reason or "")) == ("error", True), (
        f"a value that is no JSON is {shapeless.status}: {shapeless.reason}"
    )
    assert "b" in found, "the job after it never ran"


def takes_jobs_while_it_is_read(subject: LauncherSubject) -> None:
    seen: list[Event] = []
    with subject.open() as launcher:
        launcher.submit(job("0", "echo"))
        for event in launcher.events():
            seen.append(event)
            if len(seen) < 4:
                launcher.submit(job(str(len(seen)), "echo"))
        left = list(launcher.events())
    ended = sorted(event.job for event in seen)
    assert ended == ["0", "1", "2", "3"], (
        f"of jobs that were submitted while events were read, {ended} ran"
    )
    assert left == [], "they go on when nothing is left"


def ends_what_waits_when_told(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        for name in "abc":
            launcher.submit(job(name, "echo"))
        launcher.cancel("b")
        launcher.cancel("nobody")
        one = {event.job: event.status for event in launcher.events()}
        for name in "abc":
            launcher.submit(job(name, "echo"))
        launcher.cancel()
        every = {event.job: event.status for event in launcher.events()}
    expected = {"a": "done", "b": "killed", "c": "done"}
    assert one == expected, f"one of three jobs cancelled: {one}"
    expected = dict.fromkeys("abc", "killed")
    assert every == expected, f"all of three jobs cancelled: {every}"


def is_done_once_it_is_closed(subject: LauncherSubject) -> None:
    launcher = subject.open()
    launcher.submit(job("a", "echo"))
    launcher.close()
    launcher.close()  # again: no mistake
    assert list(launcher.events()) == [], "jobs run after it was closed"
    told = _refusal(lambda: launcher.submit(job("b", "echo")))
    assert "closed" in told, f"a job for a closed one is met with {told!r}"


def carries_the_files_of_a_job(subject: LauncherSubject) -> None:
    """What is there goes to the job, and what it writes comes back, before its outcome is told."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = (Path(folder, name) for name in ("given", "made"))
        given.write_text("as it was")
        carried = job("a", "revise", given=str(given), made=str(made))
        with subject.open() as launcher:
            done = outcomes(launcher, replace(carried, files=("given", "made")))["a"]
            found = [path.read_text() if path.exists() else None for path in (given, made)]
        assert done.value == "as it was", f"a job found {done.value!r}"
        assert found == ["as it is now", "new"], f"of what a job wrote, {found} came back"


# Where a job has a process of its own.


def tells_a_killed_job(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        number = signal.SIGKILL.value
        found = outcomes(launcher, job("a", "die", signal=number), job("b", "echo"))
    killed = found["a"]
    assert (killed.status, (killed.reason or "")[:7]) == ("killed", "SIGKILL"), (
        f"a job that was killed is {killed.status}: {killed.reason}"
    )
    assert found["b"].status == "done", "it took the next job with it"


def ends_a_job_at_its_time_limit(subject: LauncherSubject) -> None:
    """With all that the job had started."""
    with subject.open() as launcher, Watch(subject.patience) as watch:
        launcher.submit(job("a", "parent", seconds=3.0))
        for event in launcher.events():
            if isinstance(event, Progress):
                watch.add(*map(int, event.note.split()))
            else:
                late = event.status
        assert late == "timeout", f"a late job is {late}"
        left = len(watch.alive())
        assert not left, f"a job out of time left {left} processes running"


def ends_what_runs_when_told(subject: LauncherSubject) -> None:
    """One alone: the others go on."""
    ended: dict[str, Outcome] = {}
    with subject.open() as launcher:
        launcher.submit(job("a", "stubborn", seconds=20.0))
        launcher.submit(job("b", "echo"))
        for event in launcher.events():
            if isinstance(event, Progress):
                launcher.cancel("a")
            else:
                ended[event.job] = event
    told = {name: outcome.status for name, outcome in ended.items()}
    assert told == {"a": "killed", "b": "done"}, f"one of two running jobs cancelled: {told}"
    assert ended["a"].reason, "a cancelled job has no reason"


def keeps_what_a_stopped_job_returns(subject: LauncherSubject) -> None:
    with subject.open() as launcher:
        launcher.submit(job("a", "polite"))
        for event in launcher.events():
            if isinstance(event, Progress):
                launcher.cancel()
            else:
                told = (event.status, event.value)
                assert told == ("killed", "what there was so far"), (
                    f"a job that stopped when told is {told}"
                )


def leaves_nothing_running_when_closed(subject: LauncherSubject) -> None:
    with subject.open() as launcher, Watch(subject.patience) as watch:
        launcher.submit(job("a", "parent", seconds=20.0))
        progress = next(iter(launcher.events()))
        assert isinstance(progress, Progress)
        watch.add(*map(int, progress.note.split()))
        launcher.close()
        left = len(watch.alive())
        assert not left, f"it left {left} processes running"


def _refusal(call: Callable[[], None]) -> str:
    """What a call that must be refused says; nothing where it is not."""
    try:
        call()
    except (ValueError, TypeError) as error:
        return str(error)
    return ""


OF_ALL: tuple[Check, ...] = (
    tells_each_job_once_and_last,
    keeps_to_its_capacity,
    refuses_an_id_twice,
    tells_an_exception_in_one_line,
    tells_memory_that_ran_out,
    carries_plain_json,
    makes_an_error_of_a_value_that_is_no_json,
    takes_jobs_while_it_is_read,
    ends_what_waits_when_told,
    is_done_once_it_is_closed,
    carries_the_files_of_a_job,
)
OF_PROCESSES: tuple[Check, ...] = (  # which are waited for by Linux pidfds
    tells_a_killed_job,
    ends_a_job_at_its_time_limit,
    ends_what_runs_when_told,
    keeps_what_a_stopped_job_returns,
    leaves_nothing_running_when_closed,
)
