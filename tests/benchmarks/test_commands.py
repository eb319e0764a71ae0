"""How long people wait for an answer at the terminal, from typing to prompt: imports count.

The aims on two cores: every experiment planned in 5 s, two variants compared in 5 s, a folder of
400 trials looked at in 2 s, and a report of a thousand trials in 90 s and 1 GiB.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablations.plan import make_plan
from ablations.plan_document import merge_into
from ablations.spec import experiments
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.stamp import ROOT

pytestmark = pytest.mark.usefixtures("all_cores")
_PAUSE = 2.0  # seconds between two looks at the memory, which take their time, too


def start(folder: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ablations", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.PIPE, text=True)


def ask(folder: Path, *words: str) -> str:
    """What a command answers in a process of its own."""
    with start(folder, *words) as process:
        told, _ = process.communicate()
    assert process.returncode == 0
    return told


def test_every_experiment_is_planned(benchmark: Any, tmp_path: Path) -> None:
    told = benchmark.pedantic(ask, (tmp_path, "plan"), rounds=3)
    assert "trials, 0 done; the rest takes about" in told


def test_two_variants_are_compared(benchmark: Any, tmp_path: Path) -> None:
    told = benchmark.pedantic(ask, (tmp_path, "diff", "norm/g2p:pre", "norm/g2p:post"), rounds=3)
    assert "parameters" in told


def test_a_folder_of_four_hundred_trials_is_looked_at(benchmark: Any, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    plan = make_plan(list(experiments()), "smoke", {}, None)
    merge_into(results, plan)
    curve = [Measurement("loss", "nats/token", 1.0, "valid", {"step": n}) for n in range(500)]
    for trial in plan.trials.values():
        env = {"code": trial.code}
        results.write(Record(trial.id, "ok", trial.config, env=env, measurements=curve))
    told = benchmark.pedantic(ask, (tmp_path, "status", "--results", str(results.root)), rounds=3)
    assert f"{len(plan.trials)} ok" in told


def part_of_reference(root: Path, trials: int) -> Path:
    """The first experiments of the reference that have so many trials together."""
    shutil.unpack_archive(ROOT / "results" / "reference" / "records.zip", root)
    results = Results(root)
    plan = results.read_plan()
    kept: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for name, entry in plan["experiments"].items():
        if len(seen) < trials:
            kept[name] = entry
            seen |= {trial["id"] for trial in entry["trials"]}
    results.write_plan({**plan, "experiments": kept})
    return root


def reported(root: Path) -> tuple[float, float]:
    """Seconds and most MiB of a report, over all its processes; shared pages count once."""
    begun, most = time.monotonic(), 0.0
    with start(root, "report", "--results", str(root)) as process:
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                own = psutil.Process(process.pid)
                most = max(most, sum(map(memory, [own, *own.children(recursive=True)])))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PAUSE)
    assert process.returncode == 0
    return time.monotonic() - begun, most / 2**20


def memory(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        return process.memory_full_info().pss
    return 0.0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tells shared memory by Linux")
def test_five_hundred_trials_become_a_page(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    took = {125: reported(part_of_reference(tmp_path / "125", 125))}
    root = part_of_reference(tmp_path / "500", 500)
    took[500] = benchmark.pedantic(lambda: reported(root), rounds=1)
    benchmark.extra_info["seconds_and_mib"] = {str(trials): each for trials, each in took.items()}
    figures = len([*(root / "figures").rglob("*.svg")])
    with capsys.disabled():
        for trials, (seconds, most) in took.items():
            print(f"\n{trials} trials: {seconds:.0f} s, {most:.0f} MiB", end="")
        print(f"; {figures} figures")
    assert took[500][0] / took[125][0] < 6, "the cost of a trial grows with their number"
