"""Every launcher, and how a check opens one. A new launcher is one line in LAUNCHERS."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from in_process import InProcess
from launching import ray_cluster

from ablations.launch.local import LocalLauncher
from ablations.launch.ray.launcher import RayLauncher
from ablations.launch.slurm.launcher import SlurmLauncher
from ablations.launch.slurm.profile import SlurmProfile


@dataclass(frozen=True)
class LauncherSubject:
    """A launcher under examination."""

    name: str
    open: Callable[[], Any]
    isolates: bool = True
    """Whether a job has a process of its own, which can be killed and told to stop."""
    patience: float = 30.0
    """Seconds until a process that should have ended counts as left over; none comes near."""

    def __str__(self) -> str:
        return self.name


def local() -> LocalLauncher:
    return LocalLauncher(2, preload=(), grace=2.0)


def on_ray() -> RayLauncher:
    ray_cluster()
    return RayLauncher(2, imports=["worker_jobs"])


def slurm() -> SlurmLauncher:
    """On whatever Slurm the path leads to."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return SlurmLauncher(folder, SlurmProfile(grace=2.0), 2, poll=0.02)


LAUNCHERS = [
    LauncherSubject("local", local),
    LauncherSubject("ray", on_ray),
    LauncherSubject("slurm", slurm),
    LauncherSubject("in_process", InProcess, isolates=False),
]
