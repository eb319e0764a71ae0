"""Work in a process of its own, and whether others were at work on the machine meanwhile."""

from __future__ import annotations

import os
import resource
from functools import partial
from typing import Any

import child_jobs
import psutil
import pytest
import torch

from ablations.benchmarks import session
from ablations.benchmarks.child import in_child
from ablations.benchmarks.session import NOISY, Watch

CPU = torch.device("cpu")


def test_the_value_comes_back_and_a_report_on_the_way() -> None:
    made = {"samples": [0.1, None], "left": {"a": "why"}, "pair": (1, 2)}
    assert in_child(partial(child_jobs.give, made)) == (made, None)
    told: list[tuple[float, str]] = []
    assert in_child(child_jobs.tell, lambda *both: told.append(both)) == ("done", None)
    assert told == [(0.5, "half"), (1.0, "all\nof it")]


def test_a_child_is_fresh_and_has_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would have what this process has: on an accelerator, an open device."""
    monkeypatch.setattr(child_jobs, "MIB", 7)
    assert in_child(child_jobs.held) == ([1 << 20, torch.get_num_threads()], None)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (partial(child_jobs.fail, MemoryError()), "MemoryError"),
        (
            partial(child_jobs.fail, RuntimeError("DefaultCPUAllocator: can't allocate\nmore")),
            "allocate",
        ),
        (partial(child_jobs.fail, ValueError("long " * 100)), "long long"),
        (child_jobs.give_no_value, "pickle"),
        (child_jobs.die, "killed"),
    ],
    ids=["wordless", "allocator", "long", "no value", "SIGKILL"],
)
def test_a_failure_costs_the_child_alone_and_has_a_reason_in_one_line(
    work: Any, words: str
) -> None:
    made, reason = in_child(work)
    assert made is None
    assert words in (reason or "")
    assert "\n" not in (reason or "")
    assert len(reason or "") <= 200
    assert in_child(partial(child_jobs.give, 1)) == (1, None)  # the parent goes on


def test_an_allocation_that_the_machine_cannot_serve_fails_in_the_child() -> None:
    """More than there is, though less than an address can reach."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)
    made, reason = in_child(partial(child_jobs.allocate, 2 * psutil.virtual_memory().total))
    assert made is None
    assert "alloc" in (reason or "")
    assert resource.getrlimit(resource.RLIMIT_DATA) == hard, "the parent has no new limit"


def test_a_child_leaves_no_file_open() -> None:
    in_child(child_jobs.held)  # the server stays
    before = len(os.listdir("/dev/fd"))
    for work in (child_jobs.held, partial(child_jobs.fail, MemoryError()), child_jobs.die):
        in_child(work)
    assert len(os.listdir("/dev/fd")) == before


# The work of others.


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
    in_child(child_jobs.held)  # starts the server
    before = session._own()
    child_jobs.spin(0.1)
    alone = session._own()
    assert alone - before == pytest.approx(0.1, abs=0.08)
    in_child(partial(child_jobs.spin, 0.2))
    assert session._own() - alone >= 0.19
