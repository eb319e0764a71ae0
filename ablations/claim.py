"""Who works on what, where several sweeps share a results folder.

A claim is a file that names its owner. Its time of change is the owner's heartbeat, so that the
claim of a dead owner, or of one on a machine that is gone, can be taken over.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import psutil

HOST = socket.gethostname()
_LOCK = ".lock"
_SAME = 2.0  # seconds by which a start time may seem to move when the clock is set


@dataclass(frozen=True)
class Claim:
    """What an owner works on, and since when."""

    name: str
    host: str
    pid: int
    started: float  # the process: the system gives its id to another one day
    token: str
    since: float


class Claims:
    """The claims of one folder, as one of its owners sees them.

    `beat` is how often the heart beats, `patience` how long it may be silent, in seconds.
    """

    def __init__(
        self,
        folder: Path,
        beat: float = 5.0,
        patience: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.patience = folder, patience
        self._beat, self._clock = beat, clock
        started = psutil.Process().create_time()
        self._me = Claim("", HOST, os.getpid(), started, secrets.token_hex(8), clock())
        self._held: set[str] = set()
        self._done = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Claims that dead owners left behind are cleared away."""
        with self.locked():
            for path in self._files():
                if self._living(path) is None:
                    with contextlib.suppress(OSError):  # a folder to be read only
                        path.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One owner at a time. The lock dies with its holder, so it is never stuck."""
        lock = self._open_lock()
        if lock is None:  # where nothing can be written there is nobody to keep out
            yield
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def take(self, *names: str) -> bool:
        """Claim all of these, or none if one of them has another living owner."""
        with self.locked():
            for name in names:
                owner = self._living(self._path(name))
                if owner and not self.owns(owner):
                    return False
            for name in names:
                if not self.holds(name):
                    self._write(name)
        self._held.update(names)
        self._start_heart()
        return True

    def holds(self, name: str) -> bool:
        """Whether the claim is still ours; inside `locked` it stays so."""
        claim = _read(self._path(name))
        return claim is not None and self.owns(claim)

    def owns(self, claim: Claim) -> bool:
        return claim.token == self._me.token

    def release(self, *names: str) -> None:
        with self.locked():
            for name in names:
                if self.holds(name):
                    self._path(name).unlink()
        self._held.difference_update(names)

    def release_all(self) -> None:
        if self._heart:
            self._done.set()
            self._heart.join()
            self._heart = None
            self._done.clear()
        if self._held:
            self.release(*self._held)

    def live(self) -> list[Claim]:
        """All claims whose owners are alive, as far as can be told from here."""
        return [claim for path in self._files() if (claim := self._living(path))]

    def _open_lock(self) -> int | None:
        """The file to be locked: our own, or another user's, which may only be read."""
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                return os.open(self.folder / _LOCK, flags, 0o666)
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOENT):
                    raise
        return None

    def _path(self, name: str) -> Path:
        assert Path(name).name == name != _LOCK, name
        return self.folder / name

    def _files(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if path.name != _LOCK)
        return []

    def _write(self, name: str) -> None:
        path = self._path(name)
        path.unlink(missing_ok=True)
        now = self._clock()
        with open(path, "x", encoding="utf-8") as file:
            json.dump(asdict(replace(self._me, name=name, since=now)), file)
        os.utime(path, (now, now))

    def _living(self, path: Path) -> Claim | None:
        """The claim in this file, if there is a living owner behind it."""
        claim = _read(path)
        if claim is None:
            return None
        try:
            silence = abs(self._clock() - path.stat().st_mtime)
        except FileNotFoundError:
            return None
        if silence >= self.patience:
            return None
        return claim if claim.host != HOST or _is_running(claim) else None

    def _start_heart(self) -> None:
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat_on, daemon=True)
            self._heart.start()

    def _beat_on(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread's affair
        while not self._done.wait(self._beat):
            self.refresh()

    def refresh(self) -> None:
        """One heartbeat."""
        for name in [*self._held]:
            with contextlib.suppress(OSError):  # a full or absent disk: the next beat may do better
                if self.holds(name):
                    now = self._clock()
                    os.utime(self._path(name), (now, now))


def _read(path: Path) -> Claim | None:
    """None where nothing is, or where what is there was torn: then its writer is dead."""
    try:
        claim = Claim(**json.loads(path.read_bytes()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return claim if isinstance(claim.pid, int) and isinstance(claim.started, int | float) else None


def _is_running(claim: Claim) -> bool:
    """Whether the very process that made the claim is there; a zombie has only not been buried."""
    try:
        process = psutil.Process(claim.pid)
        is_same = abs(process.create_time() - claim.started) < _SAME
        return is_same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.AccessDenied:
        return True
    except (psutil.NoSuchProcess, ValueError, OverflowError):
        return False
