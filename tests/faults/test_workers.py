"""Whatever happens to workers, server or driver: one outcome a job, and nobody left over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import launching
import psutil
import pytest
from processes import start
from watching import LONG, Watch

from ablations.launch import Launcher, Outcome, Progress
from ablations.launch.local import LocalLauncher

JOBS = Path(__file__).parents[1] / "ablations"  # where worker_jobs.py is
job = partial(launching.job, seconds=LONG)
PATH = os.pathsep.join([str(JOBS), str(JOBS.parents[1])])

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)

DRIVER = """
import json, sys
from ablations.launch import Job
from ablations.launch.local import LocalLauncher

plan = json.loads(sys.argv[1])
launcher = LocalLauncher(2, preload=plan["preload"], grace=plan["grace"])
for name in range(plan["jobs"]):
    launcher.submit(Job(str(name), plan["call"], plan["payload"]))
events = launcher.events()
try:
    with launcher:
        for event in events:
            print(event.note, flush=True)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    monkeypatch.syspath_prepend(JOBS)
    with LocalLauncher(1, preload=(), grace=LONG) as launcher:
        yield launcher


def start_driver(
    drivers: list[subprocess.Popen[str]],
    function: str,
    jobs: int = 2,
    grace: float = 0.5,
    preload: tuple[str, ...] = (),
    **payload: Any,
) -> subprocess.Popen[str]:
    plan = {"call": f"worker_jobs:{function}", "jobs": jobs, "grace": grace}
    plan |= {"preload": preload, "payload": payload}
    words = ("-c", DRIVER, json.dumps(plan))
    return start(drivers, *words, path=PATH, stdin=subprocess.PIPE)


def watch_all(watch: Watch, driver: subprocess.Popen[str], jobs: int) -> list[int]:
    """Watch every process under a driver once its jobs have told that they run."""
    assert driver.stdout
    told = [int(pid) for _ in range(jobs) for pid in driver.stdout.readline().split()]
    found = {process.pid for process in psutil.Process(driver.pid).children(recursive=True)}
    assert found > set(told)  # the server and the resource tracker are there too
    watch.add(*found)
    return told


def test_a_worker_that_leaves_without_a_word_is_an_error(launcher: Launcher) -> None:
    for code in (0, 3):
        left = launching.outcomes(launcher, job("a", "leave", code=code))["a"]
        assert (left.status, left.reason) == ("error", f"ended without a result (exit code {code})")


def test_what_a_finished_job_left_running_is_ended(
    launcher: Launcher, watch: Watch, tmp_path: Path
) -> None:
    """A forked child, which still has the pipe of the job's result."""
    os.mkfifo(tmp_path / "fifo")
    launcher.submit(job("a", "abandon", fork=True, fifo=str(tmp_path / "fifo")))
    for event in launcher.events():
        if isinstance(event, Progress):
            watch.add(int(event.note))
            (tmp_path / "fifo").write_text("")
        else:
            assert event.status == "done"
    watch.assert_gone()


def test_when_memory_runs_out_the_kernel_takes_a_worker_first(
    launcher: Launcher, watch: Watch
) -> None:
    """Fault 20."""
    launcher.submit(job("a", "parent"))
    for event in launcher.events():
        if isinstance(event, Progress):
            pids = [int(pid) for pid in event.note.split()]
            watch.add(*pids)
            scores = [Path(f"/proc/{pid}/oom_score_adj").read_text() for pid in pids]
            assert scores == ["1000\n", "1000\n"]
            launcher.cancel()
    assert Path("/proc/self/oom_score_adj").read_text() != "1000\n"


def test_a_killed_server_costs_only_the_jobs_that_ran(launcher: Launcher, watch: Watch) -> None:
    launcher.submit(job("a", "parent"))
    launcher.submit(job("b", "echo"))
    ended = []
    for event in launcher.events():
        if isinstance(event, Progress):
            worker, child = map(int, event.note.split())
            watch.add(worker, child)
            os.kill(psutil.Process(worker).ppid(), signal.SIGKILL)
        else:
            ended.append(event)
    assert [event.status for event in ended] == ["killed", "done"]
    assert ended[0].reason == "the server that forks workers was killed"
    watch.assert_gone()


def test_a_process_that_cannot_be_started_is_an_error_that_says_so(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    launcher.submit(job("a", "echo"))
    monkeypatch.setattr("ablations.launch.local._Worker", refuse)
    (outcome,) = [event for event in launcher.events() if isinstance(event, Outcome)]
    assert outcome.status == "error"
    assert not outcome.began
    assert (outcome.reason or "").startswith("no process could be started ([Errno 11]")


@pytest.mark.parametrize(("call", "stopped"), [("keep_the_lock", False), ("parent", True)])
def test_a_killed_driver_leaves_nobody_alive(
    drivers: list[subprocess.Popen[str]], watch: Watch, call: str, stopped: bool
) -> None:
    driver = start_driver(drivers, call)
    for pid in watch_all(watch, driver, jobs=2):
        if stopped:
            os.kill(pid, signal.SIGSTOP)
    driver.kill()
    watch.assert_gone()


def test_ctrl_c_while_modules_load_is_quiet(
    drivers: list[subprocess.Popen[str]],
    watch: Watch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loading, never = tmp_path / "loading", tmp_path / "never"
    os.mkfifo(loading)
    os.mkfifo(never)
    code = f"open({str(loading)!r}, 'w').close()\nopen({str(never)!r}).close()\n"
    (tmp_path / "slow_module.py").write_text(code)
    monkeypatch.chdir(tmp_path)  # the server finds modules there
    driver = start_driver(drivers, "echo", preload=("slow_module",))
    loading.read_text()
    watch.add(*(process.pid for process in psutil.Process(driver.pid).children()))
    os.killpg(driver.pid, signal.SIGINT)
    assert driver.communicate(timeout=LONG) == ("", "")
    assert driver.returncode == 130
    watch.assert_gone()


def test_a_module_that_breaks_the_server_is_named(
    drivers: list[subprocess.Popen[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("raise OSError('no such library')\n")
    monkeypatch.chdir(tmp_path)
    driver = start_driver(drivers, "echo", preload=("broken_module",))
    _, noise = driver.communicate(timeout=LONG)
    assert "OSError: no such library" in noise
    assert noise.splitlines()[-1].startswith("ChildProcessError: workers cannot start: loading ")
    assert "broken_module" in noise.splitlines()[-1]
