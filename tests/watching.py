"""Processes that must end, whoever started them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import Self

LONG = 60.0  # seconds until a test gives up; none should come near it


class Watch:
    """Processes that must end, held by handles that no reuse of a process id can fool."""

    def __init__(self, patience: float = LONG) -> None:
        self._handles: dict[int, int] = {}
        self._patience = patience

    def add(self, *pids: int) -> None:
        for pid in pids:
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

    def close(self) -> None:
        for handle in self._handles.values():
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
            os.close(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
