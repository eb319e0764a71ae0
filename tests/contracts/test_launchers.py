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






