"""Who works on what, where several sweeps share a results folder.

A lease is a file that names its owner. Its time of change is the owner's heartbeat, so that the
lease of a dead owner, or of one on a machine that is gone, can be taken over. All times that are
compared are the file server's: the clocks of two machines differ, and any clock may be set.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Self

from ablations.store.files import NotAFileError, open_file
from ablations.store.machine import HOST as HOST
from ablations.store.machine import is_running, machine, started

_LOCK = ".lock"
_POLL = 0.02  # seconds between two tries for the lock


@dataclass(frozen=True)
class Lease:
    """What an owner works on, and since when."""

    name: str
    host: str  # for people
    machine: str
    pid: int
    started: float  # the process: the system gives its id to another one day
    token: str
    since: float


class Leases:
    """The leases of one folder, as one of its owners sees them.

    `beat` is how often the heart beats, `patience` how long it may be silent, and `wait` how long
    another may keep the lock, in seconds; `clock` is for what people are told.
    """

    def __init__(
        self,
        folder: Path,
        beat: float = 5.0,
        patience: float = 60.0,
        wait: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder, self.patience = folder, patience
        self._beat, self._wait, self._clock = beat, wait, clock
        me, token = os.getpid(), secrets.token_hex(8)
        self._me = Lease("", HOST, machine(), me, started(me), token, clock())
        self._held: set[str] = set()
        self._done = threading.Event()
        self._heart: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Leases that dead owners left behind are cleared away."""
        with self.locked():
            alive = {lease.name for lease in self.live()}
            for path in self._files():
                if path.name not in alive:
                    with contextlib.suppress(OSError):  # a folder to be read only
                        path.unlink()
        return self

    def __exit__(self, *_: object) -> None:
        self.release_all()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """One owner at a time. The lock dies with its holder; one that is stopped is given up."""
        end = time.monotonic() + self._wait
        while True:
            with self._open_lock() as lock:  # anew each time: a deleted file locks nobody out
                if self._is_locked(lock):
                    yield
                    return
            if time.monotonic() >= end:
                self._wait = 0.0  # nor wait again to leave
                what = "another process keeps this locked; let it go on or end it, then try again"
                raise TimeoutError(errno.ETIMEDOUT, what, str(self.folder / _LOCK))
            time.sleep(_POLL)

    def take(self, *names: str) -> bool:
        """Lease all of these, or none if one of them has another living owner."""
        with self.locked():
            return self.retake(*names)

    def retake(self, *names: str) -> bool:
        """`take`, inside `locked`: what is nobody's becomes ours, again if it was.

        A lease that was lost (cleared away, or silent while the machine slept) costs nothing if
        nobody has used that.
        """
        living = self._living(map(self._path, names))
        if not all(map(self.owns, living)):
            return False
        for name in {*names} - {lease.name for lease in living}:
            self._write(name)
        self._held.update(names)
        self._start_heart()
        return True

    def owns(self, lease: Lease) -> bool:
        return lease.token == self._me.token

    def release(self, *names: str) -> None:
        with self.locked():
            for name in names:
                if self._is_ours(name):
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

    def live(self) -> list[Lease]:
        """All leases whose owners are alive, as far as can be told from here."""
        return self._living(self._files())

    def _open_lock(self) -> contextlib.AbstractContextManager[IO[str] | None]:
        """The file to be locked: our own, or another user's, which may only be read."""
        for flags in (os.O_RDWR | os.O_CREAT, os.O_RDONLY):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                return os.fdopen(os.open(self.folder / _LOCK, flags, 0o666))
            except OSError as error:
                if error.errno not in (errno.EROFS, errno.EACCES, errno.ENOENT):
                    raise
        return contextlib.nullcontext()

    def _is_locked(self, lock: IO[str] | None) -> bool:
        """Whether the lock is ours now."""
        if lock is None:  # where nothing can be written there is nobody to keep out
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            what = f"{error.strerror}; take a --results folder on a file system with locks"
            raise OSError(error.errno, what, str(self.folder / _LOCK)) from None
        return True

    def _path(self, name: str) -> Path:
        assert Path(name).name == name, name
        assert not name.startswith("."), name
        return self.folder / name

    def _files(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(path for path in self.folder.iterdir() if not path.name.startswith("."))
        return []

    def _write(self, name: str) -> None:
        path = self._path(name)
        path.unlink(missing_ok=True)
        with open(path, "x", encoding="utf-8") as file:
            json.dump(asdict(replace(self._me, name=name, since=self._clock())), file)
        os.utime(path)

    def _is_ours(self, name: str) -> bool:
        found = _read(self._path(name))
        return found is not None and self.owns(found[0])

    def _living(self, paths: Iterable[Path]) -> list[Lease]:
        """The leases in these files that have living owners."""
        found = [each for path in paths if (each := _read(path))]
        now = self._now() if found else 0.0
        return [lease for lease, beat in found if self._is_alive(lease, abs(now - beat))]

    def _is_alive(self, lease: Lease, silence: float) -> bool:
        is_here = lease.machine == self._me.machine
        alive = not is_here or is_running(lease.pid, lease.started)
        return silence < self.patience and alive

    def _now(self) -> float:
        """The time by which the folder's files are dated, whatever the clock here shows."""
        try:
            with tempfile.TemporaryFile(dir=self.folder, prefix=".") as file:
                os.utime(file.fileno())
                return os.fstat(file.fileno()).st_mtime
        except OSError:  # a folder to be read only
            return self._clock()

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
                if self._is_ours(name):
                    os.utime(self._path(name))  # without times: the file server sets its own


def _read(path: Path) -> tuple[Lease, float] | None:
    """A lease and its last heartbeat; None where none is: nothing, or what is torn, or no file."""
    try:
        with open_file(path) as file:
            lease, beat = Lease(**json.load(file)), os.fstat(file.fileno()).st_mtime
    except (FileNotFoundError, NotAFileError, ValueError, TypeError, RecursionError):
        return None
    times = (lease.started, lease.since)
    is_sound = isinstance(lease.pid, int) and lease.pid > 0
    is_sound = is_sound and all(isinstance(time, int | float) for time in times)
    return (lease, beat) if is_sound and lease.name == path.name else None
