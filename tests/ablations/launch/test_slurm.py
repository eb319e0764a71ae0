"""Jobs on a cluster: one array, no job twice whatever happens to drivers, no end before the end.

The cluster is a toy that starts processes of this machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from launching import fifo, job, outcomes, release
from toy_slurm import ToySlurm
from watching import LONG, Watch

from ablations.launch import Job, Outcome, Progress
from ablations.launch.slurm import SlurmLauncher, SlurmProfile, read_slurm_profile
from model.config import ConfigError

HERE = Path(__file__).parents[1]
QUICK = 0.02  # seconds between two looks

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)


@pytest.fixture
def cluster(toy: ToySlurm, tmp_path: Path) -> Iterator[SlurmLauncher]:
    with on_cluster(tmp_path) as launcher:
        yield launcher


def on_cluster(folder: Path, **profile: Any) -> SlurmLauncher:
    return SlurmLauncher(folder / "slurm", SlurmProfile(**profile), 2, poll=QUICK)


# What is asked of the cluster.


def test_what_waits_becomes_one_array_and_what_comes_later_another(
    cluster: SlurmLauncher, toy: ToySlurm
) -> None:
    for name in "abc":
        cluster.submit(job(name, "echo", letter=name))
    found: dict[str, Any] = {}
    for event in cluster.events():
        assert isinstance(event, Outcome)
        found[event.job] = event.value
        if len(found) == 3:
            cluster.submit(job("d", "echo", letter="d"))
            cluster.submit(job("e", "echo", letter="e"))
    assert found == {name: {"letter": name} for name in "abcde"}
    arrays = [re.findall(r"--array=(\S+)", script) for script in toy.scripts()]
    assert arrays == [["0-2%2"], ["0-1%2"]]


def test_a_job_asks_for_what_it_needs_and_the_profile_for_the_rest(
    toy: ToySlurm, tmp_path: Path
) -> None:
    needs = Job(
        "a", "worker_jobs:echo", {}, threads=3, seconds=100.0, accelerators=0.5, memory=2 << 30,
        alone=True,
    )  # fmt: skip
    known = {"partition": "night", "account": "me", "qos": "low", "shards": 4, "gigabytes": 1.5}
    with on_cluster(tmp_path, **known, extra={"mail-user": "me@example.org"}) as launcher:
        assert outcomes(launcher, needs, job("b", "echo")).keys() == {"a", "b"}
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


def test_without_shards_a_share_of_an_accelerator_takes_a_whole_one() -> None:
    for share, gpu, asked in ((0.25, "gpu:a100", "gpu:a100:1"), (2.0, "gpu", "gpu:2")):
        needs = Job("a", "worker_jobs:echo", {}, accelerators=share)
        assert SlurmProfile(gpu=gpu).options(needs)["gres"] == asked


def test_what_sbatch_refuses_is_told_in_one_line(cluster: SlurmLauncher, toy: ToySlurm) -> None:
    toy.refuse("sbatch: error: invalid partition specified: nowhere\nsbatch: error: failed")
    cluster.submit(job("a", "echo"))
    with pytest.raises(ConfigError, match="invalid partition specified: nowhere") as refused:
        list(cluster.events())
    assert "\n" not in str(refused.value)


# How jobs end there.


@pytest.mark.parametrize("is_preempted", [True, False], ids=["preempted", "near its time limit"])
def test_a_job_that_slurm_stops_is_no_outcome_and_goes_on_from_its_checkpoint(
    cluster: SlurmLauncher, toy: ToySlurm, tmp_path: Path, is_preempted: bool
) -> None:
    cluster.submit(job("a", "learn", unfinished=str(tmp_path / "checkpoint")))
    for event in cluster.events():
        if isinstance(event, Progress):
            toy.requeue("1") if is_preempted else toy.tell("1", signal.SIGUSR2)
        else:
            assert (event.status, event.value) == ("done", "went on from step 7")


@pytest.mark.parametrize(
    ("how", "status", "words"),
    [
        ("TIMEOUT", "timeout", "timeout"),
        ("OUT_OF_MEMORY", "oom", "out of memory"),
        (None, "killed", "gone"),
        (signal.SIGUSR2, "timeout", "more minutes"),  # near the limit, and without a checkpoint
    ],
)
def test_what_leaves_no_result_ended_as_slurm_says(
    cluster: SlurmLauncher, toy: ToySlurm, tmp_path: Path, how: Any, status: str, words: str
) -> None:
    cluster.submit(job("a", "hold", fifo=fifo(tmp_path, "pipe")))
    for event in cluster.events():
        if isinstance(event, Progress):
            toy.tell("1", how) if how == signal.SIGUSR2 else toy.end("1", how)
        else:
            assert event.status == status
            assert words in (event.reason or "")
            assert event.began


def test_where_slurm_does_not_start_it_again_a_job_that_lost_its_machine_is_submitted_anew(
    cluster: SlurmLauncher, toy: ToySlurm, tmp_path: Path
) -> None:
    pipe = fifo(tmp_path, "pipe")
    cluster.submit(job("a", "hold", fifo=pipe))
    began = 0
    for event in cluster.events():
        if isinstance(event, Progress):
            began += 1
            toy.end("1", "NODE_FAIL") if began == 1 else release(pipe, "done at last")
        else:
            assert (event.status, event.value) == ("done", "done at last")
    assert began == 2


def test_what_was_cancelled_is_given_up_where_the_cluster_stays_silent(
    cluster: SlurmLauncher, toy: ToySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.submit(job("a", "hold", fifo=fifo(tmp_path, "pipe")))
    for event in cluster.events():
        if isinstance(event, Progress):
            with monkeypatch.context() as patch:
                patch.setattr("ablations.launch.slurm._ask", lambda *words: None)
                cluster.cancel()
                cluster._give_up_at = 0.0
        else:
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
    toy: ToySlurm, drivers: list[subprocess.Popen[str]], tmp_path: Path, payload: dict[str, Any]
) -> Iterator[Watch]:
    """A job that runs, and whose driver was killed."""
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
    with Watch() as watch:
        watch.add_family(toy.pid("1"))
        yield watch


def starts(payload: dict[str, Any]) -> int:
    return len(Path(payload["log"]).read_text().split())


def test_a_job_outlives_its_driver_and_is_found_by_the_next(
    left: Watch, payload: dict[str, Any], tmp_path: Path
) -> None:
    with on_cluster(tmp_path) as launcher:
        launcher.submit(Job("a", "worker_jobs:begin", payload))
        events = launcher.events()
        assert next(events) == Progress("a", 0.0, "started")
        release(payload["fifo"], "at last")
        (done,) = events
    assert isinstance(done, Outcome)
    assert (done.status, done.value, starts(payload)) == ("done", "at last", 1)
    left.assert_gone()


def test_a_job_that_ended_without_a_driver_is_collected_once(
    left: Watch, payload: dict[str, Any], tmp_path: Path
) -> None:
    release(payload["fifo"], "at last")
    left.assert_gone()
    with on_cluster(tmp_path) as launcher:
        done = outcomes(launcher, Job("a", "worker_jobs:begin", payload))["a"]
        assert (done.value, starts(payload)) == ("at last", 1)
        launcher.submit(Job("a", "worker_jobs:begin", payload))
        for event in launcher.events():
            if isinstance(event, Progress):
                release(payload["fifo"], "anew")
            else:
                assert (event.value, starts(payload)) == ("anew", 2)
    assert not list((tmp_path / "slurm").iterdir())


def test_a_job_that_was_left_and_then_lost_is_run_again(
    left: Watch, payload: dict[str, Any], tmp_path: Path
) -> None:
    left.kill()
    left.assert_gone()
    with on_cluster(tmp_path) as launcher:
        launcher.submit(Job("a", "worker_jobs:begin", payload))
        for event in launcher.events():
            if isinstance(event, Progress):
                release(payload["fifo"], "the second")
            else:
                assert (event.status, event.value) == ("done", "the second")
    assert starts(payload) == 2


def test_what_a_living_driver_has_in_flight_is_left_to_it_until_its_outcome_was_taken(
    toy: ToySlurm, tmp_path: Path
) -> None:
    pipe = fifo(tmp_path, "pipe")
    with on_cluster(tmp_path) as launcher:
        launcher.submit(job("a", "hold", fifo=pipe))
        events = launcher.events()
        assert next(events) == Progress("a", 0.0, "started")
        release(pipe)
        assert isinstance(next(events), Outcome)
        assert list((tmp_path / "slurm").glob("*.json"))  # its reader may die just now
        assert list(events) == []
        assert not list((tmp_path / "slurm").iterdir())


# Mistakes, and what is not ours.


MISTAKES = {
    "partitoin: night": ":1: partitoin: no such option. Did you mean 'partition'?",
    "qos: low\nminutes: soon": ":2: minutes: expected a whole number, got 'soon'",
    "minutes: 0": ":1: minutes=0: must be at least 1",
    "minutes: 1\nwarning: 60": ":2: warning=60: must be below the 60 seconds of a job",
    "gigabytes: -1": ":1: gigabytes=-1: must be positive, or null",
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


def test_where_there_is_no_slurm_or_submitit_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("PATH", str(tmp_path))
        with pytest.raises(ConfigError, match=r"no Slurm here .*: start this where jobs are"):
            SlurmLauncher(tmp_path / "slurm", SlurmProfile(), None)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ConfigError, match=r"pip install -e '\.\[slurm\]'"):
        SlurmLauncher(tmp_path / "slurm", SlurmProfile(), None)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_others_can_write_to_is_refused(toy: ToySlurm, tmp_path: Path) -> None:
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm").chmod(0o770)
    with pytest.raises(ConfigError, match="others may write there what jobs execute"):
        SlurmLauncher(tmp_path / "slurm", SlurmProfile(), None)
    shutil.rmtree(tmp_path / "slurm")
    with SlurmLauncher(tmp_path / "slurm", SlurmProfile(), None):
        assert (tmp_path / "slurm").stat().st_mode & 0o777 == 0o700
