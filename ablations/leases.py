"""Leases: which run works on which trial of a shared results folder.

A lease is a file that names its owner, who touches it now and then (filelock's SoftFileLease). It
is free again when its owner is dead or has been silent for DURATION. A lease is a hint, no lock: a
process that was paused may have lost its own, so ask `holds` right before a result is stored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from filelock import SoftFileLease, Timeout
from filelock._identity import owner_is_stale  # filelock has no public form of it

HOST = socket.gethostname()
DURATION = 60.0  # seconds of silence
_LOCK = ".lock"
_PATIENCE = 90.0  # seconds that another may keep the lock
_POLL = 0.02


@dataclass(frozen=True)
class Lease:
    """A lease of a living owner."""

    name: str
    host: str  # for people
    pid: int
    is_own: bool


class Leases:
    """The leases of one folder, as one of its owners sees them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._leases: dict[str, SoftFileLease] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()

    def take(self, *names: str) -> bool:
        """Lease all of these, or none if one of them has another living owner."""
        taken: list[str] = []
        for name in sorted({*names}):
            if self.holds(name):
                continue
            if not self._take(name):
                self.release(*taken)
                return False
            taken.append(name)
        return True

    def holds(self, name: str) -> bool:
        """Whether the file still names this owner."""
        token = self._lease(name).token
        owner = self._lease(name).owner if token else None
        return owner is not None and owner.token == token

    def release(self, *names: str) -> None:
        """Release these; a lost lease stays with its new owner."""
        for name in names:
            self._lease(name).release(force=True)

    def release_all(self) -> None:
        self.release(*self._leases)

    def live(self) -> list[Lease]:
        """The leases that have living owners, as far as can be told from here."""
        try:
            names = sorted(os.listdir(self.folder))
        except FileNotFoundError:
            return []
        found: list[Lease] = []
        for name in names:
            owner = None if name.startswith(".") else self._lease(name).owner
            if owner is not None and not self._is_dead(name):
                host = owner.hostname.partition("?pidns-")[0]
                found.append(Lease(name, host, owner.pid, owner.token == self._lease(name).token))
        return found

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder's plan; in a read-only folder, go on without a lock."""
        end = time.monotonic() + _PATIENCE
        try:
            while not self.take(_LOCK):
                if time.monotonic() >= end:
                    what = "another process keeps this locked; let it go on or end it, then retry"
                    raise TimeoutError(errno.ETIMEDOUT, what, str(self.folder / _LOCK))
                time.sleep(_POLL)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES):
                raise
        try:
            yield
        finally:
            self.release(_LOCK)

    def _lease(self, name: str) -> SoftFileLease:
        if name not in self._leases:
            assert Path(name).name == name, name
            self._leases[name] = SoftFileLease(
                self.folder / name, lease_duration=DURATION, thread_local=False
            )
        return self._leases[name]

    def _take(self, name: str) -> bool:
        lease = self._lease(name)
        lease.release(force=True)  # it may be lost
        self.folder.mkdir(parents=True, exist_ok=True)
        for is_first in (True, False):
            with contextlib.suppress(Timeout):
                lease.acquire(timeout=0)
                return True
            # filelock cannot take over a lease on NFS, where two names cannot be exchanged.
            if is_first and self._is_dead(name):
                lease.force_break()
        return False

    def _is_dead(self, name: str) -> bool:
        """Whether the owner has ended, or was silent for too long by the file server's clock."""
        owner, path = self._lease(name).owner, self.folder / name
        if owner is not None and owner_is_stale(owner.pid, owner.hostname, owner.start):
            return True
        try:
            with tempfile.TemporaryFile(dir=self.folder, prefix=".") as new:
                silence = os.fstat(new.fileno()).st_mtime - os.lstat(path).st_mtime
        except OSError:  # gone by now, or in a folder to be read only
            return False
        return abs(silence) >= DURATION
