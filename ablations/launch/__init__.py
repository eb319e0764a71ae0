"""The seam between what to run and where it runs: jobs go in, progress and outcomes come out.

Payloads and values cross the seam as JSON, so that a job means the same in a forked process as on
another machine. This module is light: drivers and workers both import it.
"""

from __future__ import annotations

import errno
import importlib
import json
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

from ablations.train.stopping import Stopped

Report = Callable[[float, str], None]


class Changed(Exception):
    """What a job was ordered for is not there any more: its data or its code is another now."""


_STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)
_REASON = 300  # characters: one line for people
_DETAIL = 20_000  # a message that prints a whole tensor must not fill a record


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


class Launcher(Protocol):
    """Somewhere to run jobs, `capacity` at once; leaving its context ends what still runs."""

    capacity: int

    def submit(self, job: Job) -> None:
        """Queue a job. It may be called while events are being read."""

    def events(self) -> Iterator[Event]:
        """Run what was submitted, telling of it as it happens, until nothing is left."""

    def cancel(self, job_id: str | None = None) -> None:
        """End one job, or all; each still has its outcome. An unknown id is no mistake."""

    def close(self) -> None:
        """End everything now and let go of it; outcomes not yet read are lost."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def accepted(job: Job, is_taken: bool, is_open: bool) -> Job:
    """A job as a launcher keeps it: its payload is text in between, so nobody shares an object."""
    if not is_open:
        raise ValueError("this launcher is closed: make a new one")
    if is_taken:
        raise ValueError(f"job {job.id!r} is already submitted: ids must differ")
    return replace(job, payload=json.loads(json.dumps(job.payload)))


def withdrawn(waiting: dict[str, Job], job_id: str | None) -> list[Outcome]:
    """Take one job, or all, out of those that wait: how each of these ended."""
    names = [*waiting] if job_id is None else [job_id]
    taken = [name for name in names if waiting.pop(name, None)]
    return [Outcome(name, "killed", reason="cancelled before it started") for name in taken]


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
