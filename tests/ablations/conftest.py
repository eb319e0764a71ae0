"""Small questions of our own, and a launcher that runs its jobs here and now."""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from ablations.launch import Event, Job, Outcome, Progress, failure, resolve

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode adds no folder by itself

SIZES = {
    "task.words": 200,
    "task.valid_words": 40,
    "task.test_words": 40,
    "model.d_model": 16,
    "model.depth": 1,
    "train.steps": 4,
    "train.batch_tokens": 256,
    "train.parts": 1,
    "train.schedule": {"name": "linear", "warmup": 2},
    "train.evaluations": 2,
}


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., str]:
    """Writes a question about a model that trains in no time; gives the file's name."""

    def write(name: str = "small", **changes: Any) -> str:
        question = {
            "question": "Does the model need positions?",
            "task": "g2p",
            "fixed": "all else",
            "moves": "nothing",
            "metric": "per",
            "measures": ["quality"],
            "control": "with",
            "variants": {"with": {}, "without": {"model.position": "none"}},
            "settings": SIZES,
            **changes,
        }
        file = tmp_path / f"{name}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(question, indent=1), encoding="utf-8")
        return str(file)

    return write


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
