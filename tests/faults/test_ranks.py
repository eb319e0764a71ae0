"""Whatever happens to the processes that train one trial: it ends, and nobody is left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import psutil
import pytest
import rank_jobs
from processes import HERE, start
from torch.multiprocessing import start_processes
from watching import LONG, Watch

from ablations.launch import Outcome, Report, failure
from ablations.signals import catching_sigterm
from ablations.train import ddp
from ablations.train.ddp import _portable, run_together
from model.config import ConfigError

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)


def start_ranks(
    drivers: list[subprocess.Popen[str]], watch: Watch, do: str
) -> tuple[subprocess.Popen[str], list[int]]:
    """A process whose two ranks have met, and their ids."""
    driver = start(drivers, str(HERE / "rank_jobs.py"), do)
    assert driver.stdout
    pids = [int(pid) for pid in driver.stdout.readline().split()]
    assert len(pids) == 2, driver.communicate(timeout=LONG)
    watch.add(*pids)
    return driver, pids


def test_ranks_die_with_the_process_that_started_them(
    drivers: list[subprocess.Popen[str]], watch: Watch
) -> None:
    driver, _ = start_ranks(drivers, watch, "wait")
    driver.kill()
    watch.assert_gone()


def together(do: str, report: Report = lambda *_: None) -> Outcome:
    """How two ranks of this process end."""
    with catching_sigterm() as notice:
        try:
            run_together(getattr(rank_jobs, do), {}, 2, report, notice)
        except Exception as error:
            return failure("a", error)
    raise AssertionError("it ended well")


def test_a_rank_that_is_killed_before_it_has_said_a_word_is_killed_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def start_and_kill(*words: Any, **options: Any) -> Any:
        started = start_processes(*words, **options)
        started.processes[0].kill()  # its modules are still loading
        return started

    monkeypatch.setattr(ddp, "start_processes", start_and_kill)
    outcome = together("wait")
    told = ("killed", "the process of device 0 was killed")
    assert (outcome.status, outcome.reason) == told


def test_no_other_machine_reaches_a_rank_and_one_that_is_killed_ends_the_others_and_is_named(
    watch: Watch,
) -> None:
    places: set[str] = set()

    def kill_one(_fraction: float, note: str) -> None:
        pids = [int(pid) for pid in note.split()]
        watch.add(*pids)
        for pid in pids:
            held = psutil.Process(pid).net_connections("inet")
            places.update(each.laddr.ip for each in held if each.status == "LISTEN")
        os.kill(pids[1], signal.SIGKILL)

    outcome = together("wait", kill_one)
    assert places == {"127.0.0.1"}
    told = ("killed", "the process of device 1 was killed")
    assert (outcome.status, outcome.reason) == told
    watch.assert_gone()


def test_what_a_rank_raises_ends_the_others_and_is_told_with_its_place() -> None:
    outcome = together("fail")
    told = ("error", "ArithmeticError: this part cannot count")
    assert (outcome.status, outcome.reason) == told
    assert "in fail" in (outcome.detail or "")


@pytest.mark.soak
def test_a_stop_that_reaches_the_starter_alone_reaches_the_ranks(
    drivers: list[subprocess.Popen[str]], watch: Watch
) -> None:
    driver, _ = start_ranks(drivers, watch, "pause")
    driver.send_signal(signal.SIGTERM)
    outcome = json.loads(driver.communicate(timeout=LONG)[0])
    assert (outcome["status"], outcome["reason"]) == ("killed", "SIGTERM")
    watch.assert_gone()


class Odd(Exception):
    """Made from two words, so that a pickle cannot make it anew."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(f"{one} {two}")


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left", "kept"), "[Errno 28] No space left: 'kept'"),
        (MemoryError("too much"), "too much"),
        (
            ConfigError(["depth=0: too small", "width=0"]),
            "ConfigError: depth=0: too small\nwidth=0",
        ),
        (Odd("no", "number"), "Odd: no number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_crosses_over_as_itself_or_in_words(error: Exception, told: str) -> None:
    assert str(_portable(error)) == told
