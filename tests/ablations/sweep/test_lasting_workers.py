"""Workers that take job after job, as long as each ends well."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from launching import job, outcomes
from watching import Watch

from ablations.sweep.launch import Progress
from ablations.sweep.launch.local import LocalLauncher


@pytest.fixture
def lasting() -> Iterator[LocalLauncher]:
    with LocalLauncher(1, preload=(), grace=2.0, lasting=True) as launcher:
        yield launcher


def who(launcher: LocalLauncher, *names: str) -> list[int]:
    found = outcomes(launcher, *(job(name, "who") for name in names))
    return [found[name].value["pid"] for name in names]


def test_jobs_that_end_well_share_one_process(lasting: LocalLauncher) -> None:
    assert len(set(who(lasting, *"abcde"))) == 1


def test_by_default_each_job_has_a_process_of_its_own() -> None:
    with LocalLauncher(1, preload=()) as launcher:
        assert len(set(who(launcher, *"abc"))) == 3


@pytest.mark.parametrize(
    ("function", "words", "status"),
    [
        ("fail", {"error": "value"}, "error"),
        ("die", {"signal": 9}, "killed"),
        ("leave", {"code": 3}, "error"),
        ("forget_thread", {}, "done"),
        ("shapeless", {}, "error"),
    ],
    ids=["raises", "is killed", "exits", "leaves a thread", "returns no JSON"],
)
def test_after_a_job_that_did_not_end_well_the_next_has_a_new_process(
    lasting: LocalLauncher, function: str, words: dict[str, object], status: str
) -> None:
    (first,) = who(lasting, "first")
    ended = outcomes(lasting, job("bad", function, **words))["bad"]
    assert ended.status == status
    (after,) = who(lasting, "after")
    assert after != first


def test_a_job_that_leaves_a_child_behind_takes_it_along(lasting: LocalLauncher) -> None:
    worker = 0
    lasting.submit(job("a", "parent"))
    with Watch() as watch:
        for event in lasting.events():
            if isinstance(event, Progress):
                worker, child = map(int, event.note.split())
                watch.add(child)
                lasting.cancel()
        watch.assert_gone()
    assert who(lasting, "b") != [worker]


def test_what_one_job_printed_is_not_told_of_the_next(lasting: LocalLauncher) -> None:
    outcomes(lasting, job("loud", "chatter", size=10, fail=False))
    failed = outcomes(lasting, job("bad", "fail", error="value"))["bad"]
    assert "about to fail" in (failed.detail or "")
    assert "from Python" not in (failed.detail or "")


def test_whoever_is_asked_can_have_all_jobs_stopped() -> None:
    stop = threading.Event()  # which another thread may set
    with LocalLauncher(1, preload=(), lasting=True, is_stopping=stop.is_set) as launcher:
        launcher.submit(job("a", "polite"))
        for event in launcher.events():
            if isinstance(event, Progress):
                stop.set()
            else:
                assert (event.status, event.value) == ("killed", "what there was so far")


def test_a_job_hears_that_it_shall_stop_also_where_the_one_before_it_ended_well(
    lasting: LocalLauncher,
) -> None:
    who(lasting, "first")
    lasting.submit(job("a", "stubborn", seconds=20.0))
    lasting.submit(job("b", "polite"))
    for event in lasting.events():
        if isinstance(event, Progress):
            lasting.cancel(event.job)
        else:
            assert event.status == "killed"


def test_a_worker_that_died_while_it_had_no_job_is_replaced(lasting: LocalLauncher) -> None:
    import os
    import signal

    (first,) = who(lasting, "first")
    os.kill(first, signal.SIGKILL)
    lasting._idle[0].process.join()
    (after,) = who(lasting, "after")
    assert after != first
