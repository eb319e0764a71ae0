"""The seam between what to run and where it runs: jobs go in, progress and outcomes come out.

Payloads and values cross the seam as JSON, so that a job means the same in a forked process as on
another machine. This module is light: drivers and workers both import it.
"""

from __future__ import annotations

import errno
import importlib
import json
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from ablations.signals import defer_signals
from ablations.train.stopping import Stopped

Report = Callable[[float, str], None]


class Changed(Exception):
    """What a job was ordered for is not there any more: its data or its code is another now."""


_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_REASON = 300  # characters: one line for people
_DETAIL = 20_000  # a message that prints a whole tensor must not fill a record
_MOST_LOST = 20  # workers or machines lost under one job that may be accidents


@dataclass(frozen=True)
class Job:
    """What a worker runs: `call` names a `package.module:function`, called with (payload, report).

    The id is unique among the jobs that wait or run; `seconds` is the time limit.
    """

    id: str
    call: str
    payload: dict[str, Any]
    threads: int = 1
    seconds: float | None = None
    accelerators: float = 0.0
    """How many it needs; a fraction is a share of one."""
    memory: int = 0
    """Bytes that it takes, about; 0: not known."""
    alone: bool = False
    """Whether it times something, so that nothing else may run on its machine."""
    files: tuple[str, ...] = ()
    """Entries of the payload that name files of the driver's: what is there goes to the job, and
    what the job writes there comes back, wherever it runs."""
    reads: tuple[str, ...] = ()
    """Other files of the driver's that it reads, such as a user's own data."""


@dataclass(frozen=True)
class Progress:
    """How far a running job has come, as it told `report(fraction, note)`."""

    job: str
    fraction: float
    note: str


@dataclass(frozen=True)
class Outcome:
    """How a job ended: exactly one for each job submitted, after all of its progress.

    The status is done, error, oom, timeout, killed; or storage: what it had to keep could not be
    written; or changed: its data or code is not what it was ordered for. No other job will fare
    better with these two. A job that was told to stop and still
    returned keeps its value, under the status timeout or killed; one that raised `Stopped` without
    having been told by its launcher was killed, too.
    """

    job: str
    status: str
    value: Any = None
    reason: str | None = None
    detail: str | None = None
    seconds: float = 0.0
    began: bool = True
    """Whether its function was called at all; if not, nothing is wrong with the job itself."""


Event = Progress | Outcome


class Launcher(ABC):
    """Somewhere to run jobs, `capacity` at once; leaving its context ends what still runs.

    This class keeps which jobs wait, which run and what is still to be told. A subclass starts jobs
    (`_fill`), waits for them (`_wait`) and tells them to stop (`_stop`).
    """

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is the number of jobs at once: at least 1, not {capacity}")
        self.capacity = capacity
        self._waiting: dict[str, Job] = {}
        self._running: dict[str, Any] = {}
        self._ready: deque[Event] = deque()
        self._lost: Counter[str] = Counter()
        self._is_open = True

    def submit(self, job: Job) -> None:
        """Queue a job. It may be called while events are being read."""
        if not self._is_open:
            raise ValueError("this launcher is closed: make a new one")
        if job.id in self._waiting or job.id in self._running:
            raise ValueError(f"job {job.id!r} is already submitted: ids must differ")
        # The payload is text in between, so nobody shares an object.
        self._waiting[job.id] = replace(job, payload=json.loads(json.dumps(job.payload)))

    def events(self) -> Iterator[Event]:
        """Run what was submitted, telling of it as it happens, until nothing is left."""
        while True:
            while self._ready:
                yield self._ready.popleft()
            self._fill()
            if self._waiting or self._running:
                self._wait()
            elif not self._ready:
                return

    def cancel(self, job_id: str | None = None) -> None:
        """End one job, or all; each still has its outcome. An unknown id is no mistake."""
        for name in [each for each in self._waiting if job_id in (None, each)]:
            del self._waiting[name]
            self._ready.append(Outcome(name, "killed", reason="cancelled before it started"))
        self._stop([name for name in self._running if job_id in (None, name)])

    def close(self) -> None:
        """End everything now and let go of it; outcomes not yet read are lost."""
        if self._is_open:
            with defer_signals():
                self.cancel()
                for _ in self.events():
                    pass
                self._is_open = False
                self._let_go()

    @abstractmethod
    def _fill(self) -> None:
        """Move waiting jobs to `_running` while there is room."""

    @abstractmethod
    def _wait(self) -> None:
        """Sleep until something happens; move what has ended from `_running` to `_ready`."""

    @abstractmethod
    def _stop(self, names: Sequence[str]) -> None:
        """Tell these running jobs to stop."""

    def _lose(self, job: Job, reason: str) -> None:
        """Begin a job again whose worker or machine was lost: that is no failure of the job."""
        self._lost[job.id] += 1
        if self._lost[job.id] < _MOST_LOST:
            self._waiting[job.id] = job
        else:
            reason = f"{_MOST_LOST} workers were lost with it ({reason})"
            self._ready.append(Outcome(job.id, "killed", reason=reason))

    def _let_go(self) -> None:  # noqa: B027 (not every launcher holds something)
        """Give back what the launcher itself holds; nothing runs any more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def resolve(call: str) -> Callable[[dict[str, Any], Report], Any]:
    """The function that a job's `call` names."""
    module, _, name = call.partition(":")
    if not module or not name:
        raise ValueError(f"{call!r} names no function: write it as package.module:function")
    return getattr(importlib.import_module(module), name)


def failure(job: str, error: BaseException) -> Outcome:
    """The outcome of a job whose function raised; call it where the exception was caught."""
    message = " ".join(str(error).split())
    name = type(error).__name__
    reason = f"{name}: {message}" if message else name
    if len(reason) > _REASON:
        reason = reason[: _REASON - 1] + "…"
    trace = error.__traceback__
    inner = trace.tb_next if trace else None  # without the frame that caught it
    detail = "".join(traceback.format_exception(type(error), error, inner))
    status = "oom" if _is_out_of_memory(error) else "error"
    if isinstance(error, Stopped):
        status, reason = "killed", message or "SIGTERM"
    if isinstance(error, Changed):
        status, reason = "changed", str(error)
    if isinstance(error, OSError) and error.errno in _STORAGE:
        status, reason = "storage", f"{error.strerror}: {error.filename or 'while writing'}"
    return Outcome(job, status, reason=reason, detail=detail[-_DETAIL:])


def _is_out_of_memory(error: BaseException) -> bool:
    """Torch's own class is known by its name, since this module must not load torch.

    Its CPU allocator and some backends raise a plain RuntimeError.
    """
    if any(kind.__name__ in ("MemoryError", "OutOfMemoryError") for kind in type(error).__mro__):
        return True
    phrases = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, RuntimeError) and any(p in str(error).lower() for p in phrases)
