"""Launchers, which run jobs: jobs go in, progress and outcomes come out.

Payloads and values travel as JSON, so a job means the same in a forked process as on another
machine. Runners and workers both import this module: it loads nothing heavy.
"""

from __future__ import annotations

import errno
import importlib
import json
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from ablations.signals import Stopped, defer_signals

Report = Callable[[float, str], None]
_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_NO_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")
_REASON, _DETAIL = 300, 20_000  # characters: a message may print a whole tensor
_MOST_LOST = 20  # workers or machines lost under one job that may be accidents


class Changed(Exception):
    """A job's data or code is no longer what it was planned for."""


@dataclass(frozen=True)
class Job:
    """A call of `package.module:function` with (payload, report); `seconds` is its time limit.

    The id is unique among the jobs that wait or run.
    """

    id: str
    call: str
    payload: dict[str, Any]
    threads: int = 1
    seconds: float | None = None
    accelerators: float = 0.0  # a fraction is a share of one
    memory: int = 0  # bytes, an estimate; 0: not known
    alone: bool = False  # it measures times, so nothing else may run on its machine
    files: tuple[str, ...] = ()
    """Payload entries that name files: the job gets copies, and what it writes comes back."""
    reads: tuple[str, ...] = ()
    """Other files here that it reads, such as a user's own data."""


@dataclass(frozen=True)
class Progress:
    """A report of a running job."""

    job: str
    fraction: float
    note: str


@dataclass(frozen=True)
class Outcome:
    """How a job ended: one for each job submitted, after all of its progress.

    The status is done, error, oom, timeout or killed; or one that every other job would share:
    storage (the results cannot be written) and changed (data or code is not as planned). A job
    that returned although it was told to stop keeps its value, under timeout or killed.
    """

    job: str
    status: str
    value: Any = None
    reason: str | None = None
    detail: str | None = None
    seconds: float = 0.0
    began: bool = True
    """Whether its function was called; if not, the job itself is not at fault."""


Event = Progress | Outcome


class Launcher(ABC):
    """Somewhere to run jobs, `capacity` at once; leaving its context ends what still runs.

    A subclass starts jobs (`_fill`), waits for them (`_wait`) and stops them (`_stop`).
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._waiting: dict[str, Job] = {}
        self._running: dict[str, Any] = {}
        self._ready: deque[Event] = deque()
        self._lost: Counter[str] = Counter()
        self._is_open = True

    def submit(self, job: Job) -> None:
        """Queue a job, also while events are being read."""
        assert self._is_open
        assert job.id not in self._waiting.keys() | self._running.keys()
        # Copied through JSON, so that no object is shared.
        self._waiting[job.id] = replace(job, payload=json.loads(json.dumps(job.payload)))

    def events(self) -> Iterator[Event]:
        """Run what was submitted until nothing is left."""
        while True:
            self._fill()  # first: the next job runs while the end of another is stored
            if self._ready:
                yield self._ready.popleft()
            elif self._waiting or self._running:
                self._wait()
            else:
                return

    def cancel(self) -> None:
        """End all jobs; each still has its outcome."""
        reason = "cancelled before it started"
        self._ready += [Outcome(name, "killed", reason=reason) for name in self._waiting]
        self._waiting.clear()
        self._stop()

    def close(self) -> None:
        """End everything now; outcomes not yet read are lost."""
        if self._is_open:
            with defer_signals():
                self.cancel()
                for _ in self.events():
                    pass
                self._is_open = False
                self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def _fill(self) -> None:
        """Move waiting jobs to `_running` while there is room."""

    @abstractmethod
    def _wait(self) -> None:
        """Sleep until something happens; move what has ended from `_running` to `_ready`."""

    @abstractmethod
    def _stop(self) -> None:
        """Tell what runs to stop."""

    def _let_go(self) -> None:  # noqa: B027 (not every launcher holds something)
        """Release what the launcher itself holds; nothing runs any more."""

    def _lose(self, job: Job, reason: str) -> None:
        """Queue a job again whose worker or machine was lost, unless that happens every time."""
        self._lost[job.id] += 1
        if self._lost[job.id] < _MOST_LOST:
            self._waiting[job.id] = job
        else:
            reason = f"{_MOST_LOST} workers were lost with it ({reason})"
            self._ready.append(Outcome(job.id, "killed", reason=reason))


def resolve(call: str) -> Callable[[dict[str, Any], Report], Any]:
    """The function that a job's `call` names."""
    module, _, name = call.partition(":")
    return getattr(importlib.import_module(module), name)


def failure(job: str, error: BaseException) -> Outcome:
    """The outcome of a job whose function raised; call it where the exception was caught."""
    names = [kind.__name__ for kind in type(error).__mro__]
    message = " ".join(str(error).split())
    status, reason = "error", f"{names[0]}: {message}" if message else names[0]
    if isinstance(error, Stopped):
        status, reason = "killed", message or "SIGTERM"
    elif isinstance(error, Changed):
        status, reason = "changed", message
    elif isinstance(error, OSError) and error.errno in _STORAGE:
        status, reason = "storage", f"{error.strerror}: {error.filename or 'while writing'}"
    # By name, since this module must not load torch; some backends raise a plain RuntimeError.
    elif {"MemoryError", "OutOfMemoryError"} & {*names} or (
        isinstance(error, RuntimeError) and any(each in message.lower() for each in _NO_MEMORY)
    ):
        status = "oom"
    reason = reason if len(reason) <= _REASON else f"{reason[: _REASON - 1]}…"
    trace = error.__traceback__ and error.__traceback__.tb_next  # without the frame that caught it
    detail = "".join(traceback.format_exception(type(error), error, trace))
    return Outcome(job, status, reason=reason, detail=detail[-_DETAIL:])
