"""The driver of a sweep on a cluster is killed: its jobs go on, and the next one collects them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from processes import start
from toy_trials import starts
from watching import LONG

from ablations.store.results import Results

pytestmark = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="waits for processes of others through Linux pidfds"
)

DRIVER = """
import json, sys
from sweep_jobs import toy_plan
from toy_trials import CALL
from ablations.store.results import Results
from ablations.sweep.launch.slurm.launcher import SlurmLauncher
from ablations.sweep.launch.slurm.profile import SlurmProfile
from ablations.sweep.runner import run

folder, trials = json.loads(sys.argv[1])
results = Results(folder)
with SlurmLauncher(results.root / "slurm", SlurmProfile(), 2, "local", poll=0.02) as launcher:
    counts = run(toy_plan(trials), results, launcher, "cpu", call=CALL, poll=0.02)
print(json.dumps(counts))
"""


@pytest.mark.soak
def test_what_went_on_without_its_driver_is_collected_and_not_run_again(
    drivers: list[subprocess.Popen[str]], results: Results, tmp_path: Path
) -> None:
    pipes = {name: str(tmp_path / name) for name in ("told", "go")}
    for pipe in pipes.values():
        os.mkfifo(pipe)
    trials: dict[str, Any] = {"a": {"do": "wait", **pipes}, "b": {}}
    words = ("-c", DRIVER, json.dumps([str(results.root), trials]))
    first = start(drivers, *words)
    worker = int(Path(pipes["told"]).read_text())
    first.kill()
    first.wait(LONG)
    Path(pipes["go"]).write_text("")
    second = start(drivers, *words)
    told, complaints = second.communicate(timeout=LONG)
    assert second.returncode == 0, complaints
    assert json.loads(told)["ok"] >= 1  # the other one may have ended before
    assert sorted(starts(results.root)) == ["a", "b"]
    record = results.read("a")
    assert record is not None
    assert (record.status, record.attempts, record.env["worker"]) == ("ok", 1, worker)
