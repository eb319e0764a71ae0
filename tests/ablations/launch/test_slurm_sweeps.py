"""A sweep on a cluster gives what it gives on one machine, whatever Slurm does to its jobs.

The cluster is a toy, and a real Slurm of one node where that can be started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from in_process import InProcess
from launching import job, outcomes
from real_slurm import RealSlurm, why_not
from small import facts, question
from small_plans import planned

from ablations.launch import Event, Progress
from ablations.launch.slurm import SlurmLauncher, SlurmProfile
from ablations.plan.wanted import Plan
from ablations.runner import run
from ablations.store.results import Results

HERE = Path(__file__).parents[1]
QUICK = 0.05  # seconds between two looks at files
SETTINGS = {"task.examples": 100, "model.d_model": 16, "train.batch_tokens": 512}
LONG_ENOUGH = {"train.steps": 500}  # that a training is still at work when it is told to stop

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)


class Cluster(Protocol):
    def requeue(self, number: str) -> None:
        """Take a job's machine away, and give it another."""


@pytest.fixture(scope="module")
def daemons() -> Iterator[RealSlurm]:
    if reason := why_not():
        pytest.skip(f"no real Slurm: {reason}")
    with RealSlurm(cpus=2) as slurm:
        yield slurm


@pytest.fixture
def real(daemons: RealSlurm, monkeypatch: pytest.MonkeyPatch) -> RealSlurm:
    monkeypatch.setenv("SLURM_CONF", str(daemons.conf))
    return daemons


@pytest.fixture(params=["toy", pytest.param("real", marks=pytest.mark.soak)])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    return request.getfixturevalue(request.param)


class Meddled(SlurmLauncher):
    """Its events are seen by someone who may do something to the cluster before they are read."""

    def __init__(self, folder: Path, meddle: Callable[[Event, str], None], **profile: Any) -> None:
        super().__init__(folder / "slurm", SlurmProfile(**profile), 2, poll=QUICK)
        self._meddle = meddle

    def events(self) -> Iterator[Event]:
        numbers: dict[str, str] = {}
        for event in super().events():
            known = [*self._running.values(), *self._told]
            numbers |= {one.job.id: str(one.number) for one in known}
            self._meddle(event, numbers.get(event.job, ""))
            yield event


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    file = tmp_path_factory.mktemp("plan") / "small.yaml"
    file.write_text(json.dumps(question(task="recall", metric="accuracy", settings=SETTINGS)))
    return planned(str(file), seeds=[0], **LONG_ENOUGH)


@pytest.fixture(scope="module")
def here(plan: Plan, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """What a sweep on this machine gives."""
    results = Results(tmp_path_factory.mktemp("here"))
    assert run(plan, results, InProcess(), "cpu").total() == 2
    return results


def test_a_sweep_of_which_one_job_lost_its_machine_gives_the_records_of_one_here(
    cluster: Cluster, plan: Plan, here: Results, tmp_path: Path
) -> None:
    there = Results(tmp_path / "there")
    lost: list[str] = []
    steps: list[float] = []  # how far that job was, and is when it goes on

    def take_machine(event: Event, number: str) -> None:
        if isinstance(event, Progress) and event.fraction >= 0.1 and not lost:
            lost.append(event.job)
            cluster.requeue(number)
        if isinstance(event, Progress) and event.job in lost:
            steps.append(event.fraction)

    with Meddled(there.root, take_machine) as launcher:
        assert run(plan, there, launcher, "cpu").total() == 2
    assert facts(there) == facts(here)
    assert len(facts(here)) == 2
    begun_again = steps.index(0.0)
    assert steps[begun_again + 1] >= steps[begun_again - 1] >= 0.1, "it went on, not back"
    assert not list((there.root / "slurm").iterdir())


# What only a real one can show.


@pytest.mark.soak
def test_jobs_that_wait_are_one_array_of_which_so_many_run_at_once(
    real: RealSlurm, tmp_path: Path
) -> None:
    seen = set()

    def look(_event: Event, number: str) -> None:
        seen.add(number.partition("_")[0])
        running = real.ask("squeue", "--me", "--noheader", "--array", "--states=RUNNING")
        assert len(running.splitlines()) <= 2

    with Meddled(tmp_path, look) as launcher:
        found = outcomes(launcher, *(job(name, "echo", letter=name) for name in "abcde"))
    assert {name: outcome.value["letter"] for name, outcome in found.items()} == {
        name: name for name in "abcde"
    }
    assert len(seen) == 1


@pytest.mark.soak
def test_a_job_that_one_of_higher_priority_displaces_goes_on_from_its_checkpoint(
    real: RealSlurm, tmp_path: Path
) -> None:
    def displace(event: Event, number: str) -> None:
        if isinstance(event, Progress):
            words = ["--partition=high", "--exclusive", "--output=/dev/null", "--wrap=true"]
            real.ask("sbatch", "--wait", *words)
            real.hasten(number)

    with Meddled(tmp_path, displace) as launcher:
        done = outcomes(launcher, job("a", "learn", unfinished=str(tmp_path / "checkpoint")))["a"]
    assert (done.status, done.value) == ("done", "went on from step 7")
