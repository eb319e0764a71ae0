"""A launcher that runs its jobs here and now."""

from __future__ import annotations

import json
from collections.abc import Callable

from ablations.launch import Job, Launcher, Outcome, Progress, failure, resolve


class InProcess(Launcher):
    """Runs each job in this process when events are read, and remembers what it was given.

    It keeps every contract of launchers that asks for no process of a job's own.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        super().submit(job)
        self.jobs.append(job)

    def _fill(self) -> None:
        """A job runs while it is waited for."""

    def _wait(self) -> None:
        job = self._waiting.pop(next(iter(self._waiting)))

        def report(fraction: float, note: str) -> None:
            self._ready.append(Progress(job.id, fraction, note))

        self._ready.append(self.work(job, report))

    def _stop(self) -> None:
        assert not self._running

    def work(self, job: Job, report: Callable[[float, str], None]) -> Outcome:
        try:
            value = json.loads(json.dumps(resolve(job.call)(job.payload, report)))
        except (Exception, SystemExit) as error:
            return failure(job.id, error)
        return Outcome(job.id, "done", value, seconds=0.5)
