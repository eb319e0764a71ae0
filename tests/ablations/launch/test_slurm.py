"""Jobs on a cluster: one array, no job twice whatever happens to drivers, no end before the end.

The cluster is a toy that starts processes of this machine; for soak tests also a real Slurm of one
node, where that can be started.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess
from launching import fifo, job, outcomes, release
from real_slurm import RealSlurm, why_not
from small import facts, question
from small_plans import planned
from toy_slurm import ToySlurm
from watching import LONG

from ablations.jobs import RunConfig
from ablations.launch import Event, Job, Outcome, Progress
from ablations.launch.slurm import SlurmLauncher, SlurmProfile, read_slurm_profile
from ablations.runner import run
from ablations.store.results import Results
from model.config import ConfigError

HERE = Path(__file__).parents[1]
SETTINGS = {"task.examples": 100, "model.d_model": 16, "train.batch_tokens": 512}
LONG_ENOUGH = {"train.steps": 500}  # that a training is still at work when it is told to stop
Cluster = ToySlurm | RealSlurm
Meddle = Callable[[Event, str], None]

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)


class Meddled(SlurmLauncher):
    """Somebody sees each event, with Slurm's number of its job, before it is read."""

    def __init__(self, folder: Path, meddle: Meddle = lambda *_: None, **profile: Any) -> None:
        super().__init__(folder / "slurm", SlurmProfile(**profile), 2, poll=0.02)
        self._meddle = meddle

    def events(self) -> Iterator[Event]:
        numbers: dict[str, str] = {}
        for event in super().events():
            numbers |= {one.job.id: str(one.number) for one in self._running.values()}
            self._meddle(event, numbers.get(event.job, ""))
            yield event


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToySlurm:
    """A Slurm whose commands are found first, and whose machine is this one."""
    toy = ToySlurm(tmp_path / "toy")
    monkeypatch.setenv("PATH", str(toy.install()), prepend=os.pathsep)
    return toy


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


# What is asked of the cluster.


def test_what_waits_becomes_one_array_and_what_comes_later_another(
    toy: ToySlurm, tmp_path: Path
) -> None:
    found: dict[str, Any] = {}
    with Meddled(tmp_path) as launcher:
        for name in "abc":
            launcher.submit(job(name, "echo", letter=name))
        for event in launcher.events():
            assert isinstance(event, Outcome)
            found[event.job] = event.value
            if len(found) == 3:
                launcher.submit(job("d", "echo", letter="d"))
                launcher.submit(job("e", "echo", letter="e"))
    assert found == {name: {"letter": name} for name in "abcde"}
    arrays = [re.findall(r"--array=(\S+)", script) for script in toy.scripts()]
    assert arrays == [["0-2%2"], ["0-1%2"]]
    assert not list((tmp_path / "slurm").iterdir())


def test_a_job_asks_for_what_it_needs_and_the_profile_for_the_rest(
    toy: ToySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = Job(
        "a", "worker_jobs:echo", {}, threads=3, seconds=100.0, accelerators=0.5, memory=2 << 30,
        alone=True,
    )  # fmt: skip
    known = {"partition": "night", "account": "me", "qos": "low", "shards": 4, "gigabytes": 1.5}
    monkeypatch.setenv("SLURM_JOB_GPUS", "7")  # the driver may be a job itself
    monkeypatch.setenv("SBATCH_RESERVATION", "mine")
    with Meddled(tmp_path, **known, extra={"mail-user": "me@example.org"}) as launcher:
        assert outcomes(launcher, needs, job("b", "echo")).keys() == {"a", "b"}
    env = json.loads((toy.folder / "1.env").read_text())
    assert (env.get("SLURM_JOB_GPUS"), env.get("SBATCH_RESERVATION")) == (None, "mine")
    first, second = toy.scripts()
    asked = dict(re.findall(r"#SBATCH --([\w-]+)=?(.*)", first))
    assert asked.items() >= {
        "partition": "night", "account": "me", "qos": "low", "mail-user": "me@example.org",
        "cpus-per-task": "3", "gres": "shard:2", "mem": "2048MB", "exclusive": "", "time": "6",
        "requeue": "", "signal": "B:USR2@120",
    }.items()  # fmt: skip
    asked = dict(re.findall(r"#SBATCH --([\w-]+)=?(.*)", second))
    assert (asked["cpus-per-task"], asked["time"]) == ("1", "240")
    assert asked["mem"] == "2048MB"  # what a profile names, in whole gigabytes
    assert not asked.keys() & {"gres", "exclusive"}
    assert SlurmProfile().options(needs)["mem"] is None  # which the cluster knows best
    for share, gpu, gres in ((0.25, "gpu:a100", "gpu:a100:1"), (2.0, "gpu", "gpu:2")):
        needs = Job("a", "worker_jobs:echo", {}, accelerators=share)
        assert SlurmProfile(gpu=gpu).options(needs)["gres"] == gres


def test_what_sbatch_refuses_is_told_in_one_line_but_later_it_is_asked_again(
    toy: ToySlurm, tmp_path: Path
) -> None:
    toy.refuse("sbatch: error: invalid partition specified: nowhere\nsbatch: error: failed")
    with Meddled(tmp_path) as launcher:
        launcher.submit(job("a", "echo"))
        with pytest.raises(ConfigError, match="invalid partition specified: nowhere") as refused:
            list(launcher.events())
        assert "\n" not in str(refused.value)
        assert len(list(launcher.events())) == 1
        toy.refuse("sbatch: error: too many jobs of yours")
        assert outcomes(launcher, job("b", "echo"))["b"].status == "done"


# How jobs end there.


@pytest.mark.parametrize("is_preempted", [True, False], ids=["preempted", "near its time limit"])
def test_a_job_that_slurm_stops_is_no_outcome_and_goes_on_from_its_checkpoint(
    toy: ToySlurm, tmp_path: Path, is_preempted: bool
) -> None:
    def stop(event: Event, _number: str) -> None:
        if isinstance(event, Progress):
            toy.requeue("1") if is_preempted else toy.tell("1", signal.SIGUSR2)

    with Meddled(tmp_path, stop) as launcher:
        done = outcomes(launcher, job("a", "learn", unfinished=str(tmp_path / "checkpoint")))["a"]
    assert (done.status, done.value) == ("done", "went on from step 7")


ENDS = {
    "TIMEOUT": ("timeout", "timeout"),
    "OUT_OF_MEMORY": ("oom", "out of memory"),
    "FAILED": ("error", "failed"),
    None: ("killed", "gone"),
    signal.SIGUSR2: ("timeout", "more minutes"),  # near the limit, and without a checkpoint
}


def test_what_leaves_no_result_ended_as_slurm_says(toy: ToySlurm, tmp_path: Path) -> None:
    def end(event: Event, number: str) -> None:
        if isinstance(event, Progress):
            how = [*ENDS][int(event.job)]
            toy.tell(number, how) if how == signal.SIGUSR2 else toy.end(number, how)

    pipes = [fifo(tmp_path, str(index)) for index in range(len(ENDS))]
    with Meddled(tmp_path, end) as launcher:
        jobs = [job(str(index), "hold", fifo=pipe) for index, pipe in enumerate(pipes)]
        found = outcomes(launcher, *jobs)
    for index, (status, words) in enumerate(ENDS.values()):
        outcome = found[str(index)]
        assert (outcome.status, outcome.began) == (status, True), outcome
        assert words in (outcome.reason or "")


def test_where_slurm_does_not_start_it_again_a_job_that_lost_its_machine_is_submitted_anew(
    toy: ToySlurm, tmp_path: Path
) -> None:
    pipe = fifo(tmp_path, "pipe")
    began: list[str] = []

    def lose(event: Event, number: str) -> None:
        if isinstance(event, Progress):
            began.append(number)
            toy.end("1", "NODE_FAIL") if len(began) == 1 else release(pipe, "done at last")

    with Meddled(tmp_path, lose) as launcher:
        done = outcomes(launcher, job("a", "hold", fifo=pipe))["a"]
    assert (done.status, done.value, began) == ("done", "done at last", ["1", "2"])


def test_what_was_cancelled_is_given_up_where_the_cluster_stays_silent(
    toy: ToySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.launch.slurm._PATIENCE", 0.0)
    with Meddled(tmp_path) as launcher, monkeypatch.context() as patch:
        launcher.submit(job("a", "hold", fifo=fifo(tmp_path, "pipe")))
        for event in launcher.events():
            if isinstance(event, Progress):
                patch.setattr("ablations.launch.slurm._ask", lambda *words: None)
                launcher.cancel()
    assert isinstance(event, Outcome)
    assert event.status == "killed"
    assert "does not say" in (event.reason or "")
    toy.end("1", None)


# When drivers die.

DRIVER = """
import json, sys
from pathlib import Path
from ablations.launch import Job
from ablations.launch.slurm import SlurmLauncher, SlurmProfile

folder, payload = json.loads(sys.argv[1])
launcher = SlurmLauncher(Path(folder), SlurmProfile(), 2, poll=0.02)
launcher.submit(Job("a", "worker_jobs:begin", payload))
for event in launcher.events():
    print(event.note, flush=True)
"""


@pytest.fixture
def payload(tmp_path: Path) -> dict[str, Any]:
    return {"log": str(tmp_path / "log"), "fifo": fifo(tmp_path, "pipe")}


@pytest.fixture
def left(
    cluster: Cluster,
    drivers: list[subprocess.Popen[str]],
    tmp_path: Path,
    payload: dict[str, Any],
) -> Cluster:
    """Where a job runs whose driver was killed."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps([str(tmp_path / "slurm"), payload])],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), str(HERE.parents[1])])},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    drivers.append(driver)
    assert driver.stdout
    assert driver.stdout.readline() == "started\n"
    driver.kill()
    driver.wait(LONG)
    return cluster


def starts(payload: dict[str, Any]) -> int:
    return len(Path(payload["log"]).read_text().split())


@pytest.mark.usefixtures("left")
def test_a_job_outlives_its_driver_and_is_collected_once_by_the_next(
    payload: dict[str, Any], tmp_path: Path
) -> None:
    same = Job("a", "worker_jobs:begin", payload)
    with Meddled(tmp_path) as launcher:
        launcher.submit(same)
        events = launcher.events()
        assert next(events) == Progress("a", 0.0, "started")
        release(payload["fifo"], "at last")
        done = next(events)
        assert isinstance(done, Outcome)
        assert (done.status, done.value, starts(payload)) == ("done", "at last", 1)
        assert list((tmp_path / "slurm").glob("*.json")), "its reader may die just now"
        assert list(events) == []
        assert not list((tmp_path / "slurm").iterdir())
        launcher.submit(same)
        for event in launcher.events():
            if isinstance(event, Progress):
                release(payload["fifo"], "anew")
            else:
                assert (event.value, starts(payload)) == ("anew", 2)


def test_a_job_that_was_left_and_then_lost_is_run_again_and_so_is_another_of_its_name(
    toy: ToySlurm, left: Cluster, payload: dict[str, Any], tmp_path: Path
) -> None:
    for number, change in (("1", {}), ("2", {"changed": True})):
        if not change:
            toy.end(number, None)
        again = {**payload, **change}
        with Meddled(tmp_path) as launcher:
            launcher.submit(Job("a", "worker_jobs:begin", again))
            for event in launcher.events():
                if isinstance(event, Progress):
                    release(payload["fifo"], "anew")
                else:
                    assert (event.status, event.value) == ("done", "anew")
    assert starts(payload) == 3


# Whole runs.


def test_a_run_of_which_one_job_lost_its_machine_gives_the_records_of_one_here(
    cluster: Cluster, tmp_path: Path
) -> None:
    file = tmp_path / "small.yaml"
    file.write_text(json.dumps(question(task="recall", metric="accuracy", settings=SETTINGS)))
    plan = planned(str(file), seeds=[0], **LONG_ENOUGH)
    here, there = Results(tmp_path / "here"), Results(tmp_path / "there")
    assert run(RunConfig(plan, here, "cpu"), InProcess()).total() == 2
    lost: list[str] = []
    steps: list[float] = []  # how far that job was, and is when it goes on

    def take_machine(event: Event, number: str) -> None:
        if isinstance(event, Progress) and event.fraction >= 0.1 and not lost:
            lost.append(event.job)
            cluster.requeue(number)
        if isinstance(event, Progress) and event.job in lost:
            steps.append(event.fraction)

    with Meddled(there.root, take_machine) as launcher:
        assert run(RunConfig(plan, there, "cpu"), launcher).total() == 2
    assert facts(there) == facts(here)
    assert len(facts(here)) == 2
    begun_again = steps.index(0.0)
    assert steps[begun_again + 1] >= steps[begun_again - 1] >= 0.1, "it went on, not back"
    assert not list((there.root / "slurm").iterdir())


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


# Mistakes.

MISTAKES = {
    "partitoin: night": ":1: partitoin: no such option. Did you mean 'partition'?",
    "qos: low\nminutes: soon": ":2: minutes: expected a whole number, got 'soon'",
    "minutes: 0": ":1: minutes=0: must be at least 1",
    "minutes: 1\nwarning: 60": ":2: warning=60: must be below the 60 seconds of a job",
    "grace: -1": ":1: grace=-1.0: must be at least 0",
    "extra:\n  array: 0-3": ":2: extra.array: the launcher sets it itself; leave it out",
    "- partition": ":1: expected `key: value` lines",
}


def test_a_mistake_in_a_profile_is_named_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    for text, words in MISTAKES.items():
        file.write_text(text)
        with pytest.raises(ConfigError) as mistake:
            SlurmLauncher(tmp_path / "slurm", read_slurm_profile(str(file)), None)
        (line,) = str(mistake.value).splitlines()
        assert line.startswith(f"{file}{words}")
        assert list(tmp_path.iterdir()) == [file]


def test_where_jobs_cannot_be_submitted_the_way_out_is_named(
    toy: ToySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "slurm"
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(ConfigError, match=r"no Slurm here .*: start this where jobs are"):
            SlurmLauncher(folder, SlurmProfile(), None)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "submitit", None)
        with pytest.raises(ConfigError, match=r"pip install -e '\.\[slurm\]'"):
            SlurmLauncher(folder, SlurmProfile(), None)
    assert not folder.exists()
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(ConfigError, match="others may write there what jobs execute"):
        SlurmLauncher(folder, SlurmProfile(), None)
    folder.rmdir()
    with SlurmLauncher(folder, SlurmProfile(), None):
        assert folder.stat().st_mode & 0o777 == 0o700
