"""Every launcher keeps every contract. A new launcher is one line in LAUNCHERS."""

from __future__ import annotations

import os
import tempfile
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess
from launcher_checks import OF_ALL, OF_CLOSING, OF_CLOSING_PROCESSES, OF_PROCESSES
from launching import job, ray_cluster
from task_subjects import failures
from toy_slurm import ToySlurm

from ablations.launch.local import LocalLauncher
from ablations.launch.ray import RayLauncher
from ablations.launch.slurm import SlurmLauncher, SlurmProfile


def local(_: Path | None = None) -> LocalLauncher:
    return LocalLauncher(2, preload=(), grace=2.0)


def on_ray(_: Path) -> RayLauncher:
    return RayLauncher(2, ray_cluster().address, imports=["worker_jobs"], preload=())


def slurm(folder: Path) -> SlurmLauncher:
    """On whatever Slurm the path leads to."""
    return SlurmLauncher(Path(tempfile.mkdtemp(dir=folder)), SlurmProfile(grace=2.0), 2, poll=0.02)


def here(_: Path) -> InProcess:
    return InProcess()


LAUNCHERS: list[Any] = [
    pytest.param(local, id="local"),
    pytest.param(on_ray, id="ray", marks=pytest.mark.xdist_group("ray")),
    pytest.param(slurm, id="slurm"),
    pytest.param(here, id="in_process"),
]


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_launcher_keeps_every_contract(
    launcher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(ToySlurm(tmp_path).install()), prepend=os.pathsep)
    can_watch = launcher is not here and hasattr(os, "pidfd_open")
    with local() as held:  # the server that local workers come from is started once
        held.submit(job("first", "echo"))
        checks = OF_ALL + (OF_PROCESSES if can_watch else ())
        with launcher(tmp_path) as shared:
            problems = failures(checks, lambda: nullcontext(shared))
        checks = OF_CLOSING + (OF_CLOSING_PROCESSES if can_watch else ())
        assert not problems + failures(checks, partial(launcher, tmp_path))
