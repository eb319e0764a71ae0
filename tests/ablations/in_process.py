"""A launcher that runs its jobs here and now."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Self

from ablations.launch import Event, Job, Outcome, Progress, failure, resolve


class InProcess:
    """Runs each job in this process when events are read, and remembers what it was given.

    It keeps every contract of launchers that asks for no process of a job's own.
    """

    capacity = 1

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._waiting: deque[Job] = deque()
        self._cancelled: deque[Outcome] = deque()
        self._is_open = True

    def submit(self, job: Job) -> None:
        if not self._is_open:
            raise ValueError("this launcher is closed: make a new one")
        if job.id in [waiting.id for waiting in self._waiting]:
            raise ValueError(f"job {job.id!r} is already submitted: ids must differ")
        plain = replace(job, payload=json.loads(json.dumps(job.payload)))
        self.jobs.append(job)
        self._waiting.append(plain)

    def events(self) -> Iterator[Event]:
        while self._waiting or self._cancelled:
            while self._cancelled:
                yield self._cancelled.popleft()
            if not self._waiting:
                return
            job = self._waiting.popleft()
            told: list[Event] = []

            def report(
                fraction: float, note: str, job: Job = job, told: list[Event] = told
            ) -> None:
                told.append(Progress(job.id, fraction, note))

            outcome = self.work(job, report)
            yield from told
            yield outcome

    def work(self, job: Job, report: Callable[[float, str], None]) -> Outcome:
        try:
            value = json.loads(json.dumps(resolve(job.call)(job.payload, report)))
        except (Exception, SystemExit) as error:
            return failure(job.id, error)
        return Outcome(job.id, "done", value, seconds=0.5)

    def cancel(self, job_id: str | None = None) -> None:
        for job in [each for each in self._waiting if job_id in (None, each.id)]:
            self._waiting.remove(job)
            self._cancelled.append(Outcome(job.id, "killed", reason="cancelled before it started"))

    def close(self) -> None:
        self._is_open = False
        self._waiting.clear()
        self._cancelled.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
