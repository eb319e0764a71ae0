"""A sweep stops when it is told to, once, and not in the middle of what must be whole."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from ablations.signals import (
    Stopped,
    Terminated,
    catching_sigterm,
    defer_signals,
    exit_code,
    stoppable,
)

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_raises_and_no_later_one_does(number: signal.Signals, code: int) -> None:
    with pytest.raises(KeyboardInterrupt) as stop, stoppable():
        signal.raise_signal(number)
    assert exit_code(stop.value) == code
    assert isinstance(stop.value, Terminated) == (number == signal.SIGTERM)
    for later in SIGNALS:
        signal.raise_signal(later)


def test_without_a_signal_all_is_as_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stoppable(), defer_signals():
        assert set(SIGNALS) <= signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert [signal.getsignal(number) for number in SIGNALS] != before
    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert not set(SIGNALS) & signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with stoppable():
        signal.raise_signal(signal.SIGINT)
        with defer_signals():
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize(("number", "threads"), [(signal.SIGINT, 0), (signal.SIGTERM, 1)])
def test_a_signal_is_put_off_to_the_end_of_what_must_be_whole(
    number: signal.Signals, threads: int
) -> None:
    """Also when another thread takes it, to which the main thread's mask means nothing."""
    done = threading.Event()
    whole: list[int] = []

    def disturb() -> None:
        with defer_signals(), defer_signals():
            os.kill(os.getpid(), number)
            whole.extend(sum(range(1000)) for _ in range(1000))

    others = [threading.Thread(target=done.wait) for _ in range(threads)]
    for other in others:
        other.start()
    try:
        with pytest.raises(KeyboardInterrupt), stoppable():
            disturb()
    finally:
        done.set()
        for other in others:
            other.join()
    assert len(whole) == 1000


def test_a_job_takes_note_and_says_where_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with catching_sigterm() as notice:
        assert not notice()
        signal.raise_signal(signal.SIGTERM)
        assert notice()
    assert signal.getsignal(signal.SIGTERM) == before
    assert "in test_a_job_takes_note_and_says_where_it_was" in capfd.readouterr().err


def test_a_job_may_be_stopped_at_once_where_it_says_so() -> None:
    with catching_sigterm() as notice:
        with pytest.raises(Stopped), notice.raising():
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(Stopped), notice.raising():
            pytest.fail("it was told before")
