"""How a job is told to stop, and takes note of it."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from collections.abc import Iterator


class Stopped(Exception):
    """A job was told to stop, or lost a process as it says; it goes on from what it has kept."""


class Notice:
    """Whether this job was told to stop."""

    def __init__(self) -> None:
        self._came = self._raises = False

    def __call__(self) -> bool:
        return self._came

    def take(self, *_: object) -> None:
        self._came = True
        if self._raises:
            raise Stopped

    @contextlib.contextmanager
    def raising(self) -> Iterator[None]:
        """In this block, being told raises `Stopped` where it strikes."""
        self._raises = True
        try:
            if self._came:
                raise Stopped
            yield
        finally:
            self._raises = False


@contextlib.contextmanager
def noticing() -> Iterator[Notice]:
    """Take note of SIGTERM instead of dying of it. Where the job was then is still printed."""
    notice = Notice()
    faulthandler.unregister(signal.SIGTERM)  # or registering it again would change nothing
    before = signal.signal(signal.SIGTERM, notice.take)
    faulthandler.register(signal.SIGTERM, file=2, all_threads=False, chain=True)
    try:
        yield notice
    finally:
        faulthandler.unregister(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
