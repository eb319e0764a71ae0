"""SIGTERM as a request to stop, which a job answers when it can."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
from collections.abc import Iterator


class Stopped(Exception):
    """A job was asked to stop, or lost a process; it resumes from its checkpoint."""


class StopRequest:
    """Whether this job was asked to stop."""

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
        """In this block the signal raises `Stopped` at once."""
        self._raises = True
        try:
            if self._came:
                raise Stopped
            yield
        finally:
            self._raises = False


@contextlib.contextmanager
def catching_sigterm() -> Iterator[StopRequest]:
    """Record SIGTERM instead of dying of it. A traceback of that moment is still printed."""
    request = StopRequest()
    faulthandler.unregister(signal.SIGTERM)  # or registering it again would change nothing
    before = signal.signal(signal.SIGTERM, request.take)
    faulthandler.register(signal.SIGTERM, file=2, all_threads=False, chain=True)
    try:
        yield request
    finally:
        faulthandler.unregister(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
