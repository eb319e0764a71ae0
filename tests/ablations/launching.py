"""Jobs for a launcher, and what became of them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from ablations.launch import Job, Launcher, Outcome


def job(name: str, function: str, seconds: float | None = None, **payload: Any) -> Job:
    """One way to behave, of those in worker_jobs.py."""
    return Job(name, f"worker_jobs:{function}", payload, seconds=seconds)


def outcomes(launcher: Launcher, *jobs: Job) -> dict[str, Outcome]:
    for each in jobs:
        launcher.submit(each)
    return {event.job: event for event in launcher.events() if isinstance(event, Outcome)}


def fifo(folder: Path, name: str) -> str:
    os.mkfifo(folder / name)
    return str(folder / name)


def release(path: str, text: str = "") -> None:
    """Let a job go that holds at this named pipe."""
    with open(path, "w") as file:
        file.write(text)


@cache
def ray_cluster() -> Any:
    """One for all tests of this process; on loopback nobody else can reach it."""
    from ray.cluster_utils import Cluster

    words = {"num_cpus": 2, "node_ip_address": "127.0.0.1", "include_dashboard": False}
    return Cluster(initialize_head=True, head_node_args=words)
