"""Launchers that each break one contract, to prove that the contract can fail."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from in_process import InProcess
from launcher_checks import (
    Check,
    carries_plain_json,
    carries_the_files_of_a_job,
    ends_a_job_at_its_time_limit,
    ends_what_runs_when_told,
    ends_what_waits_when_told,
    is_done_once_it_is_closed,
    keeps_to_its_capacity,
    keeps_what_a_stopped_job_returns,
    leaves_nothing_running_when_closed,
    makes_an_error_of_a_value_that_is_no_json,
    refuses_an_id_twice,
    takes_jobs_while_it_is_read,
    tells_a_killed_job,
    tells_an_exception_in_one_line,
    tells_each_job_once_and_last,
    tells_memory_that_ran_out,
)

from ablations.sweep.launch import Event, Job, Outcome, Progress, resolve

BROKEN: list[tuple[Check, type, str]] = []


def breaks(check: Check, sentence: str) -> Any:
    """Enter a launcher as one that must fail `check` with these words."""

    def enter(launcher: Any) -> Any:
        BROKEN.append((check, launcher, sentence))
        return launcher

    return enter


@breaks(tells_each_job_once_and_last, "outcomes of jobs: {'a': 2")
class TellsTwice(InProcess):
    def events(self) -> Iterator[Event]:
        for event in super().events():
            yield event
            if isinstance(event, Outcome):
                yield event


@breaks(tells_each_job_once_and_last, "outcomes of jobs: {}")
class LosesOutcomes(InProcess):
    def events(self) -> Iterator[Event]:
        return (event for event in super().events() if isinstance(event, Progress))


@breaks(tells_each_job_once_and_last, "progress after the outcome")
class TellsTheEndFirst(InProcess):
    def events(self) -> Iterator[Event]:
        return iter(list(super().events())[::-1])


@breaks(keeps_to_its_capacity, "2 jobs at once, of 1 that it has")
class RunsAllAtOnce(InProcess):
    def events(self) -> Iterator[Event]:
        return iter(sorted(super().events(), key=lambda event: isinstance(event, Outcome)))


@breaks(refuses_an_id_twice, "a second job of one id is met with ''")
class TakesAnIdTwice(InProcess):
    def submit(self, job: Job) -> None:
        self._waiting.append(job)


@breaks(refuses_an_id_twice, "a refused job ran all the same")
class RunsWhatItRefuses(InProcess):
    def submit(self, job: Job) -> None:
        try:
            super().submit(job)
        except ValueError:
            self._waiting.append(job)
            raise


@breaks(tells_an_exception_in_one_line, r"the reason of an exception is 'width 7\\nis")
class KeepsLineBreaks(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        try:
            resolve(job.call)(job.payload, report)
        except Exception as error:
            return Outcome(job.id, "error", reason=str(error), detail="worker_jobs.py")
        raise AssertionError("the job of this contract raises")


@breaks(tells_an_exception_in_one_line, "does not say where it was raised")
class HidesWhereItWas(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        return replace(super().work(job, report), detail=None)


@breaks(tells_memory_that_ran_out, "errors are told as {'memory': 'error'")
class TakesMemoryForAMistake(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        return replace(super().work(job, report), status="error")


@breaks(carries_plain_json, "a payload arrived as .*added after it was submitted")
class SharesTheObject(InProcess):
    def submit(self, job: Job) -> None:
        super().submit(job)
        self._waiting[-1] = job


@breaks(carries_plain_json, "a payload that is no JSON is met with ''")
class TakesAnyObject(InProcess):
    def submit(self, job: Job) -> None:
        if job.id == "a":
            super().submit(job)


@breaks(makes_an_error_of_a_value_that_is_no_json, "a value that is no JSON is done")
class HandsOverTheObject(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        return Outcome(job.id, "done", resolve(job.call)(job.payload, report))


@breaks(makes_an_error_of_a_value_that_is_no_json, "events end in")
class BreaksOverAValue(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        value = super().work(job, report)
        if value.status == "error":
            raise TypeError(value.reason)
        return value


@breaks(takes_jobs_while_it_is_read, r"\['0'\] ran")
class LooksAtItsQueueOnce(InProcess):
    def events(self) -> Iterator[Event]:
        found = list(super().events())
        yield from found
        self._waiting.clear()


@breaks(ends_what_waits_when_told, "one of three jobs cancelled: {'a': 'done', 'c': 'done'}")
class ForgetsTheCancelled(InProcess):
    def cancel(self, job_id: str | None = None) -> None:
        super().cancel(job_id)
        self._cancelled.clear()


@breaks(ends_what_waits_when_told, "all of three jobs cancelled: {'a': 'done'")
class CancelsOneAtMost(InProcess):
    def cancel(self, job_id: str | None = None) -> None:
        if job_id is not None:
            super().cancel(job_id)


@breaks(is_done_once_it_is_closed, "jobs run after it was closed")
class StaysOpen(InProcess):
    def close(self) -> None:
        """Nothing."""


@breaks(is_done_once_it_is_closed, "a job for a closed one is met with ''")
class TakesJobsForEver(InProcess):
    def close(self) -> None:
        super().close()
        self._is_open = True


# Where a job has a process of its own: these act as if it had.


class Acts(InProcess):
    """Tells of processes; one that it starts outlives whatever it says."""

    def __init__(self) -> None:
        super().__init__()
        self.children: list[subprocess.Popen[bytes]] = []

    def child(self) -> str:
        words = [sys.executable, "-S", "-c", "import signal; signal.pause()"]
        self.children.append(subprocess.Popen(words))
        return str(self.children[-1].pid)

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.kill()
            child.wait()


@breaks(tells_a_killed_job, "a job that was killed is error: exit code -9")
class TakesAKillForAMistake(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        return Outcome(job.id, "error", reason="exit code -9")


@breaks(tells_a_killed_job, "it took the next job with it")
class DiesWithOneJob(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        return Outcome(job.id, "killed", reason="SIGKILL")


@breaks(ends_a_job_at_its_time_limit, "a late job is killed")
class TakesTheLimitForAKill(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        report(0.0, self.child())
        return Outcome(job.id, "killed", reason="SIGTERM")


@breaks(carries_the_files_of_a_job, "a job found None")
class SendsNoFiles(InProcess):
    def submit(self, job: Job) -> None:
        paths = {name: f"{job.payload[name]}.elsewhere" for name in job.files}
        super().submit(replace(job, payload={**job.payload, **paths}))


@breaks(carries_the_files_of_a_job, r"\['as it was', 'new'\] came back")
class BringsBackOnlyNewFiles(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        before = Path(job.payload["given"]).read_text()
        outcome = super().work(job, report)
        Path(job.payload["given"]).write_text(before)
        return outcome


@breaks(ends_a_job_at_its_time_limit, "a job out of time left 1 processes running")
class ForgetsTheChildrenOfAJob(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        report(0.0, self.child())
        return Outcome(job.id, "timeout", reason="longer than 1 s")


@breaks(ends_what_runs_when_told, "cancelled: {'a': 'timeout', 'b': 'done'}")
class WaitsForTheLimit(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        if job.seconds is None:
            return Outcome(job.id, "done")
        report(0.0, "started")
        return Outcome(job.id, "timeout", reason="longer than 2 s")


@breaks(ends_what_runs_when_told, "cancelled: {'a': 'killed', 'b': 'killed'}")
class CancelsAllForOne(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        return Outcome(job.id, "killed", reason="cancelled")


@breaks(keeps_what_a_stopped_job_returns, r"is \('killed', None\)")
class DropsTheValue(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        report(0.0, "started")
        return Outcome(job.id, "killed", reason="cancelled")


@breaks(leaves_nothing_running_when_closed, "it left 1 processes running")
class LeavesThemRunning(Acts):
    def work(self, job: Job, report: Any) -> Outcome:
        report(0.0, self.child())
        return Outcome(job.id, "done")
