"""Every launcher keeps every contract."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from launcher_checks import (
    OF_ALL,
    OF_PROCESSES,
)
from launcher_subjects import LAUNCHERS, LauncherSubject, local
from launching import job
from toy_slurm import ToySlurm

GROUPS = {"ray": [pytest.mark.xdist_group("ray")]}


@pytest.mark.parametrize(
    "subject", [pytest.param(s, id=s.name, marks=GROUPS.get(s.name, ())) for s in LAUNCHERS]
)
def test_every_launcher_keeps_every_contract(
    subject: LauncherSubject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(ToySlurm(tmp_path).install()), prepend=os.pathsep)
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
