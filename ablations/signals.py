"""Signals that stop a run, so that it ends in good order."""

from __future__ import annotations

import contextlib
import faulthandler
import signal
import threading
from collections.abc import Iterator
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Terminated(KeyboardInterrupt):
    """SIGTERM, handled like Ctrl-C."""


def exit_code(error: KeyboardInterrupt) -> int:
    """The exit code of a program that a signal ended, as shells expect it."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """The first SIGINT or SIGTERM raises, and from then on both are ignored: it is stopping.

    A signal that was ignored before, as nohup and shells do for what runs in the background, stays
    ignored.
    """

    def stop(number: int, _frame: Any) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt

    before = {each: signal.getsignal(each) for each in _SIGNALS}
    for each, handler in before.items():
        if handler != signal.SIG_IGN:
            signal.signal(each, stop)
    try:
        yield
    finally:
        for each, handler in before.items():
            if signal.getsignal(each) is stop:
                signal.signal(each, handler)


@contextlib.contextmanager
def defer_signals() -> Iterator[None]:
    """Put SIGINT and SIGTERM off until the end of the block; a process started in it gets neither.

    The mask is for that process. It would not do for this one: another thread takes the signal, and
    Python then runs the handler here.
    """
    if threading.current_thread() is not threading.main_thread():  # it runs no handlers
        yield
        return
    came: list[int] = []
    before: dict[signal.Signals, Any] = {}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        for each in _SIGNALS:
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                before[each] = signal.getsignal(each)
                signal.signal(each, lambda number, _frame: came.append(number))
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for each, handler in before.items():
            signal.signal(each, handler)
        if came:
            signal.raise_signal(came[0])


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
