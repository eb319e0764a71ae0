"""Every launcher keeps every contract."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from in_process import InProcess
from launcher_checks import (
    OF_ALL,
    OF_PROCESSES,
    leaves_nothing_running_when_closed,
    tells_each_job_once_and_last,
)
from launcher_subjects import LAUNCHERS, LauncherSubject, local
from launching import job

from ablations.sweep.launch import Job, Outcome

GROUPS = {"ray": [pytest.mark.xdist_group("ray")]}


@pytest.mark.parametrize(
    "subject", [pytest.param(s, id=s.name, marks=GROUPS.get(s.name, ())) for s in LAUNCHERS]
)
def test_every_launcher_keeps_every_contract(subject: LauncherSubject) -> None:
    broken = []
    with local() as held:  # the server that local workers come from is started once
        held.submit(job("first", "echo"))
        can_watch = subject.isolates and hasattr(os, "pidfd_open")
        for check in OF_ALL + (OF_PROCESSES if can_watch else ()):
            try:
                check(subject)
            except AssertionError as error:
                broken.append(f"{check.__name__}: {error}")
    assert not broken


class LosesOutcomes(InProcess):
    def events(self) -> Any:
        yield from [event for event in super().events() if not isinstance(event, Outcome)]


class LeavesThemRunning(InProcess):
    def work(self, job: Job, report: Any) -> Outcome:
        child = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
        self.children = [child]
        report(0.0, str(child.pid))
        return Outcome(job.id, "done")

    def __exit__(self, *_: object) -> None:
        for child in self.children:
            child.kill()
            child.wait()


@pytest.mark.soak
def test_a_launcher_that_loses_outcomes_or_leaves_processes_behind_breaks_its_contract() -> None:
    with pytest.raises(AssertionError, match="outcomes of jobs"):
        tells_each_job_once_and_last(LauncherSubject("lossy", LosesOutcomes))
    with pytest.raises(AssertionError, match="it left 1 processes running"):
        leaves_nothing_running_when_closed(LauncherSubject("messy", LeavesThemRunning, patience=0))
