"""Processes that must end, whoever started them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Self

import psutil

LONG = 60.0  # seconds until a test gives up; none should come near it


class Watch:
    """Processes that must end, held by handles that no reuse of a process id can fool."""

    def __init__(self, patience: float = LONG) -> None:
        self._handles: dict[int, int] = {}
        self._patience = patience

    def add(self, *pids: int) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # it has ended
                self._handles[pid] = os.pidfd_open(pid)

    def alive(self) -> list[int]:
        """Those that have not ended, after all patience."""
        return [
            pid
            for pid, handle in self._handles.items()
            if not select.select([handle], [], [], self._patience)[0]
        ]

    def assert_gone(self) -> None:
        assert self._handles
        for pid in self.alive():
            raise AssertionError(f"process {pid} is still alive")

    def add_family(self, pid: int) -> None:
        """A process and all below it."""
        self.add(pid, *(child.pid for child in psutil.Process(pid).children(recursive=True)))

    def __len__(self) -> int:
        return len(self._handles)

    def kill(self) -> None:
        for handle in self._handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        for handle in self._handles.values():
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
