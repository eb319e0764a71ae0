"""A sweep on a Ray cluster is the sweep of this machine: same ids, statuses, numbers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from in_process import InProcess
from launching import ray_cluster
from small import SETTINGS, facts

from ablations.jobs import RunConfig
from ablations.launch import Job, Outcome
from ablations.launch.ray import RayLauncher, connect, refuse_open_cluster
from ablations.plan import make_plan
from ablations.runner import run as run_plan
from ablations.store.results import Results
from ablations.tasks.task import announce, announced
from model.config import ConfigError

pytestmark = pytest.mark.xdist_group("ray")

ROOT = Path(__file__).parents[3]
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # as Ray calls it


def command(question: str, folder: Path, *words: str) -> list[str]:
    start = [sys.executable, "-m", "ablations", "run", question, "--profile", "smoke"]
    return [*start, "--results", str(folder), *words]


def run(question: str, folder: Path, *words: str) -> dict[str, Any]:
    done = subprocess.run(
        command(question, folder, *words), capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return facts(Results(folder))


def start(
    drivers: list[subprocess.Popen[str]], question: str, folder: Path, *words: str
) -> subprocess.Popen[str]:
    driver = subprocess.Popen(
        command(question, folder, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        start_new_session=True,
    )
    drivers.append(driver)
    return driver


def heard(driver: subprocess.Popen[str], words: str) -> str:
    """All that a driver says, up to these words."""
    told = ""
    assert driver.stdout is not None
    while words not in told:
        line = driver.stdout.readline()
        assert line, told
        told += line
    return told


class Machines:
    """A real cluster: each machine a set of processes on loopback."""

    def __init__(self, number: int) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(initialize_head=True, head_node_args=self._words)
        self._others = [self._cluster.add_node(**self._words) for _ in range(number - 1)]
        self._cluster.wait_for_nodes()
        self.address = self._cluster.address

    @property
    def _words(self) -> dict[str, Any]:
        return {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False}

    def lose_one(self) -> None:
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def kill_worker(self) -> None:
        """One that runs a job, as the kernel would; between two passes none does."""
        workers: list[psutil.Process] = []
        while not workers:
            workers = [
                process
                for process in psutil.process_iter(["cmdline"])
                if "ray::run_here" in (process.info["cmdline"] or [""])[0]
            ]
        workers[0].send_signal(signal.SIGKILL)

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    """On loopback nobody else can reach them; a token of this user's is another cluster's."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    cluster = Machines(3)
    yield cluster
    cluster.close()


SEEDS = ("--seeds", "0-9")
PLACES = ("here", "there")


def on_cluster() -> RayLauncher:
    """On the cluster that all tests of this process share."""
    return RayLauncher(1, ray_cluster().address, imports=["worker_jobs"])


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1]))


def test_a_cluster_gives_what_this_machine_gives(ask: Callable[..., str], tmp_path: Path) -> None:
    plan = make_plan([ask()], "smoke", {}, [0])
    run_plan(RunConfig(plan, Results(tmp_path / "here"), "cpu"), InProcess())
    with on_cluster() as launcher:
        run_plan(RunConfig(plan, Results(tmp_path / "there"), "cpu"), launcher)
    here, there = facts(Results(tmp_path / "here")), facts(Results(tmp_path / "there"))
    assert len(there) == 2
    assert there == here
    weights = [sorted(p.name for p in (tmp_path / f / "checkpoints").iterdir()) for f in PLACES]
    assert weights == [[f"{trial}.safetensors" for trial in sorted(here)]] * 2


def test_code_and_files_of_the_driver_are_brought_to_the_job(tmp_path: Path) -> None:
    """A file is brought anew where it has changed, also to a machine that has an older copy."""
    path = tmp_path / "mine.txt"
    for text in ("first", "second"):
        path.write_text(text)
        with announce([{"name": "copy", "examples": 100}]), on_cluster() as launcher:
            asked = Job("a", "worker_jobs:recite", {"path": str(path)}, reads=(str(path),))
            launcher.submit(asked)
            (told,) = launcher.events()
            tasks = announced()
        assert isinstance(told, Outcome)
        value = told.value
        assert (value["text"], value["is_copy"], value["tasks"]) == (text, True, tasks), told
        assert not Path(value["code"]).is_relative_to(ROOT), "the worker runs code that came along"


@pytest.mark.soak
@pytest.mark.parametrize("lost", ["a machine", "a worker", "the driver"])
def test_what_is_lost_half_way_costs_nothing_but_time(
    ask: Callable[..., str],
    tmp_path: Path,
    machines: Machines,
    drivers: list[subprocess.Popen[str]],
    lost: str,
) -> None:
    twenty = ask(settings={**SETTINGS, "train.steps": 60})
    words = (*SEEDS, "--on", "ray", "--address", machines.address)
    driver = start(drivers, twenty, tmp_path / "there", *words)
    heard(driver, "[10/20]")
    if lost != "the driver":
        machines.lose_one() if lost == "a machine" else machines.kill_worker()
        rest = driver.communicate()[0]
        assert driver.returncode == 0, rest
        assert "attempt" not in rest  # nothing was told to have failed
        there = facts(Results(tmp_path / "there"))
    else:
        driver.kill()
        driver.wait()
        kept = facts(Results(tmp_path / "there"))
        assert 10 <= len(kept) < 20
        there = run(twenty, tmp_path / "there", *words)
        assert kept.items() <= there.items()
    assert there == run(twenty, tmp_path / "here", *SEEDS)


def test_a_cluster_that_anyone_can_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Nodes:
        """A cluster as far as its machines' addresses go."""

        def __init__(self, *addresses: str) -> None:
            self._addresses = addresses

        def nodes(self) -> list[dict[str, Any]]:
            return [{"Alive": True, "NodeManagerAddress": each} for each in self._addresses]

        def shutdown(self) -> None:
            pass

    refuse_open_cluster(Nodes("127.0.0.1", "::1", "localhost"))  # nobody else can reach it
    outside = Nodes("127.0.0.1", "10.0.0.7")
    with pytest.raises(ConfigError, match=r"10\.0\.0\.7.*RAY_AUTH_MODE=token.*--trust-cluster"):
        refuse_open_cluster(outside)
    monkeypatch.setattr("ablations.launch.ray.connect", lambda *_: outside)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigError, match="other machines can reach"):
        RayLauncher()
    for mode, trusted in (("token", False), ("disabled", True)):
        monkeypatch.setenv("RAY_AUTH_MODE", mode)
        with pytest.raises(KeyError, match="Resources"):  # it looks at what the machines have
            RayLauncher(trusted=trusted)


def test_ray_is_told_to_stay_on_loopback_where_its_cluster_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import ray

    def refuse(**_: Any) -> None:
        raise ConnectionError("not now")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr("ablations.launch.ray._knock", lambda address: None)
    kept = {None: "0", "127.0.0.1:6379": "0", "localhost:6379": "0", "[::1]:6379": "0"}
    for address, told in {**kept, "10.0.0.7:6379": None, "head:6379": None, "auto": None}.items():
        monkeypatch.delenv(LOOPBACK, raising=False)
        with pytest.raises(ConfigError, match=r"does not answer \(not now\)"):
            connect(address, 1, [])
        assert os.environ.get(LOOPBACK) == told, address


def test_an_address_where_nobody_is_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would try for ten minutes."""
    import ray

    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("Ray was asked"))
    for address in ("127.0.0.1:1", "localhost:1", "[::1]:1", "127.0.0.1:99999"):
        told = rf"--on ray: {re.escape(address)} does not answer \(.+\)"
        with pytest.raises(ConfigError, match=told):
            RayLauncher(address=address)
