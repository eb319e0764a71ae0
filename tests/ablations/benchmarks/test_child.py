"""Work in a process of its own, and whether others were at work on the machine meanwhile."""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest
import torch

from ablations.benchmarks import session
from ablations.benchmarks.child import Report, in_child
from ablations.benchmarks.session import NOISY, Watch

CPU = torch.device("cpu")
Work = Callable[[Report], Any]


def allocating(size: int) -> Work:
    return lambda _: torch.ones(size, dtype=torch.uint8).numel()


def raising(error: BaseException) -> Work:
    def work(_: Report) -> None:
        raise error

    return work


def die(_: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_child_makes_comes_back_as_json_has_it() -> None:
    made = {"samples": [0.1, None], "left": {"a": "why"}}
    assert in_child(lambda _: {**made, "pair": (1, 2)}) == ({**made, "pair": [1, 2]}, None)
    assert in_child(lambda _: None) == (None, None)


def test_a_child_tells_how_far_it_is() -> None:
    told: list[tuple[float, str]] = []

    def work(tell: Report) -> str:
        tell(0.5, "half")
        tell(1.0, "all\nof it")
        return "done"

    assert in_child(work, lambda *both: told.append(both)) == ("done", None)
    assert told == [(0.5, "half"), (1.0, "all\nof it")]


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (raising(MemoryError()), "MemoryError"),
        (raising(RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore")), "allocate"),
        (raising(ValueError("long " * 100)), "long long"),
        (die, "killed"),
    ],
    ids=["wordless", "allocator", "long", "SIGKILL"],
)
def test_a_failure_costs_the_child_alone_and_has_a_reason_in_one_line(
    work: Work, words: str
) -> None:
    made, reason = in_child(work)
    assert made is None
    assert reason
    assert words in reason
    assert "\n" not in reason
    assert len(reason) <= 200
    assert in_child(allocating(1)) == (1, None)  # the parent goes on


def test_an_allocation_that_the_machine_cannot_serve_fails_in_the_child() -> None:
    """More than there is, though less than an address can reach."""
    made, reason = in_child(allocating(2 * psutil.virtual_memory().total))
    assert made is None
    assert "alloc" in (reason or "")
    hard = resource.getrlimit(resource.RLIMIT_DATA)
    in_child(allocating(1))
    assert resource.getrlimit(resource.RLIMIT_DATA) == hard, "the parent has no new limit"


def test_a_child_leaves_no_file_open() -> None:
    before = len(os.listdir("/dev/fd"))
    for work in (allocating(1), raising(MemoryError()), die):
        in_child(work)
    assert len(os.listdir("/dev/fd")) == before


# The work of others.


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize(("share", "noisy"), [(NOISY - 0.01, False), (NOISY + 0.01, True)])
def test_the_work_of_others_is_a_share_of_all_cores_and_a_little_is_no_noise(
    monkeypatch: pytest.MonkeyPatch, share: float, noisy: bool
) -> None:
    before = Watch(begun=0.0, busy=100.0, own=7.0, load=0.0)  # and 10 seconds later, on 4 cores:
    monkeypatch.setattr(session, "_busy", lambda: 100.0 + 5.0 + share * 40)
    monkeypatch.setattr(session, "_own", lambda: 7.0 + 5.0)
    monkeypatch.setattr(session.time, "monotonic", lambda: 10.0)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    state = before.state(CPU)
    assert (state["others"], state["noisy"]) == (pytest.approx(share), noisy)


def test_what_we_and_our_children_do_is_our_own() -> None:
    """A session forks its processes and waits for them."""
    before = session._own()
    spin(0.1)
    alone = session._own()
    assert alone - before == pytest.approx(0.1, abs=0.08)
    in_child(lambda _: spin(0.2))
    assert session._own() - alone >= 0.19
