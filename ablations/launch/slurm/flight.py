"""What is in flight: on disk, where a later driver finds it, and as its own driver sees it.

Each submission has a folder of its own, with a manifest that says which jobs it holds, what the
queue calls them and whose they are. A job whose result was collected is marked by a file; with the
last of its jobs the folder goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ablations.launch import Job, Outcome, Progress
from ablations.launch.slurm.element import read_outcome
from ablations.launch.slurm.queue import ENDED, files_of
from ablations.store.files import read_file, write_atomic
from ablations.store.machine import is_running, machine, started
from model.config import ConfigError

_MANIFEST = "manifest.json"
_HERE = machine()
_TAIL = 2_000  # characters of a job's log
_LOST = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED")  # its machine was, by no fault of its own
_STATUS = {"TIMEOUT": "timeout", "DEADLINE": "timeout", "OUT_OF_MEMORY": "oom"}  # else: killed


@dataclass(frozen=True)
class Submitted:
    """A job that was handed to a queue: by which order, and where its files are."""

    job: str
    order: str
    folder: Path
    index: int
    number: str | None
    """What the queue calls it; None where its driver died before it could note that."""

    def file(self, kind: str) -> Path:
        """The one that tells its "progress", or is there once it is "cancelled" or "collected"."""
        return self.folder / f"{self.index}.{kind}"


def private(folder: Path) -> Path:
    """The folder, made where it is not there, in which nobody else can write what jobs execute."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
    if not is_ours or found.st_mode & 0o077:
        raise ConfigError(
            [f"{folder}: others may write there what jobs execute; move it away and run again"]
        )
    return folder


def order_of(job: Job) -> str:
    """Equal for jobs that do the same."""
    plain = json.dumps([job.call, job.payload], sort_keys=True)
    return hashlib.sha256(plain.encode()).hexdigest()


def new_folder(root: Path) -> Path:
    folder = root / secrets.token_hex(4)
    folder.mkdir(mode=0o700)
    return folder


def note(folder: Path, jobs: Sequence[Job], numbers: Sequence[str] | None) -> list[Submitted]:
    """Write down what a folder holds: before it is submitted, and again once it has numbers."""
    me = os.getpid()
    document = {
        "jobs": [{"job": job.id, "order": order_of(job)} for job in jobs],
        "numbers": None if numbers is None else list(numbers),
        "driver": {"machine": _HERE, "pid": me, "started": started(me)},
    }
    write_atomic(folder / _MANIFEST, json.dumps(document, indent=1))
    return _held(folder, document)


def left_behind(root: Path) -> Iterator[Submitted]:
    """What is in flight and was not collected, unless its driver is at work on this machine."""
    for folder in sorted(root.iterdir()):
        # What is damaged, or was never written, tells of nothing that could be gone on with.
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            document = json.loads(read_file(folder / _MANIFEST))
            if not _is_driven(**document["driver"]):
                yield from [
                    each for each in _held(folder, document) if not each.file("collected").exists()
                ]


def forget(one: Submitted, files: Sequence[Path]) -> None:
    """A result was collected: these files can go, and the folder with its last job."""
    for file in (one.file("progress"), one.file("cancelled"), *files):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError, ValueError):  # another driver may have cleared the folder
        one.file("collected").touch()
        document = json.loads(read_file(one.folder / _MANIFEST))
        if all(each.file("collected").exists() for each in _held(one.folder, document)):
            shutil.rmtree(one.folder, ignore_errors=True)


def _held(folder: Path, document: dict[str, Any]) -> list[Submitted]:
    jobs = document["jobs"]
    numbers = document["numbers"] or [None] * len(jobs)
    return [
        Submitted(entry["job"], entry["order"], folder, index, number)
        for index, (entry, number) in enumerate(zip(jobs, numbers, strict=True))
    ]


def _is_driven(machine: str, pid: int, started: float) -> bool:
    return machine == _HERE and is_running(pid, started)


class Flight:
    """A job between its submission and its outcome."""

    def __init__(self, one: Submitted) -> None:
        assert one.number is not None
        self.job, self.number = one.job, one.number
        self.is_cancelled = False
        self._one, self._files = one, files_of(one.folder, one.number)
        self._read = 0  # bytes of progress
        self._began: float | None = None
        self._state: str | None = None  # in which Slurm says that it has ended
        self._ended = math.inf
        self._is_done = False

    def cancel(self) -> None:
        """Let the job know that it is its driver who tells it to stop."""
        self.is_cancelled = True
        with contextlib.suppress(OSError):  # then what it has so far is lost, and no more
            self._one.file("cancelled").touch()

    def see(self, state: str) -> None:
        """How Slurm says that it stands: ended, or not, or not any more."""
        if state not in ENDED:
            self._state, self._ended = None, math.inf
        elif self._state is None:
            self._state, self._ended = state, time.monotonic()

    def news(self) -> list[Progress]:
        """What it has reported since the last time."""
        try:
            with open(self._one.file("progress"), "rb") as file:
                file.seek(self._read)
                told = file.read()
        except FileNotFoundError:
            return []
        self._began = self._began or time.monotonic()
        whole = told[: told.rfind(b"\n") + 1]
        self._read += len(whole)
        events = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, TypeError):  # torn when its writer was killed
                events.append(Progress(self.job, **json.loads(line)))
        return events

    def outcome(self, settling: float) -> Outcome | None:
        """How it ended; None while it has not, or while the disk may not show it yet."""
        with contextlib.suppress(OSError):  # else a network disk may go on to hide what is new
            os.listdir(self._one.folder)
        found = read_outcome(self.job, self._files["result"])
        if found is None:
            if time.monotonic() - self._ended < settling:
                return None
            found = self._death()
        elif (found.status, (found.reason or "")[:7]) == ("killed", "SIGKILL"):
            if self._state is None:
                return None  # Slurm will tell whether it was for memory
            if self._state == "OUT_OF_MEMORY":
                found = replace(found, status="oom", reason="more memory than it had asked for")
        if self.is_cancelled:
            found = replace(found, status="killed", reason="cancelled")
        self._is_done = found.status == "done"
        return found

    @property
    def is_lost(self) -> bool:
        """Whether it ended with its machine, on a cluster that does not start it again."""
        return self._state in _LOST and not self.is_cancelled and not self._is_done

    def forget(self) -> None:
        """Its outcome was taken. The log of one that failed stays as long as its array."""
        kept = () if self._is_done else ("stdout", "stderr")
        forget(self._one, [file for kind, file in self._files.items() if kind not in kept])

    def _death(self) -> Outcome:
        """The outcome of a job that has ended and left no result."""
        assert self._state is not None
        words = self._state.lower().replace("_", " ")
        logs = [self._files["stdout"], self._files["stderr"]]
        return Outcome(
            self.job,
            _STATUS.get(self._state, "killed"),
            reason=f"ended without a result ({words})",
            detail="\n".join(filter(None, map(_tail, logs))) or None,
            seconds=0.0 if self._began is None else time.monotonic() - self._began,
            began=self._began is not None,
        )


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-4 * _TAIL :].decode("utf-8", "replace")[-_TAIL:]
    except OSError:
        return ""
