"""A launcher that runs its jobs here and now."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from ablations.sweep.launch import Event, Job, Outcome, Progress, failure, resolve

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself


class InProcess:
    """Runs each job in this process when events are read, and remembers what it was given."""

    capacity = 1

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self._waiting: deque[Job] = deque()

    def submit(self, job: Job) -> None:
        plain = json.loads(json.dumps(job.payload))
        self.jobs.append(job)
        self._waiting.append(Job(job.id, job.call, plain, job.threads, job.seconds))

    def events(self) -> Iterator[Event]:
        while self._waiting:
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
            value = resolve(job.call)(job.payload, report)
        except Exception as error:
            return failure(job.id, error)
        return Outcome(job.id, "done", json.loads(json.dumps(value)), seconds=0.5)

    def cancel(self, job_id: str | None = None) -> None:
        self._waiting = deque(job for job in self._waiting if job_id not in (None, job.id))

    def close(self) -> None:
        self._waiting.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def here() -> InProcess:
    return InProcess()
