"""What is in flight, on disk: a later driver finds the jobs that an earlier one has left behind.

Each submission has a folder of its own, with a manifest that says which jobs it holds, what the
queue calls them and whose they are. A job whose result was collected is marked by a file; with the
last of its jobs the folder goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.store.files import read_file, write_atomic
from ablations.store.machine import is_running, machine, started
from ablations.sweep.launch import Job
from model.config import ConfigError

_MANIFEST = "manifest.json"
_HERE = machine()


@dataclass(frozen=True)
class Submitted:
    """A job that was handed to a queue: by which order, and where its files are."""

    job: str
    order: str
    folder: Path
    index: int
    number: str | None
    """What the queue calls it; None where its driver died before it could note that."""

    @property
    def progress(self) -> Path:
        return self.folder / f"{self.index}.progress"

    @property
    def cancelled(self) -> Path:
        return self.folder / f"{self.index}.cancelled"

    @property
    def collected(self) -> Path:
        return self.folder / f"{self.index}.collected"


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
                yield from [each for each in _held(folder, document) if not each.collected.exists()]


def forget(one: Submitted, files: Sequence[Path]) -> None:
    """A result was collected: these files can go, and the folder with its last job."""
    for file in (one.progress, one.cancelled, *files):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError, ValueError):  # another driver may have cleared the folder
        one.collected.touch()
        document = json.loads(read_file(one.folder / _MANIFEST))
        if all(each.collected.exists() for each in _held(one.folder, document)):
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
