"""What a whole report of results/reference costs, with every figure: time and memory, and how the
time grows with the trials."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablations.store.results import Results
from ablations.store.stamp import ROOT
from analysis.publish import unpack

REFERENCE = ROOT / "results" / "reference"
_PAUSE = 2.0  # seconds between two looks at the memory, which take their time, too


def part_of_reference(root: Path, trials: int) -> Path:
    """The first questions of the reference that have so many trials together."""
    unpack(REFERENCE, root)
    results = Results(root)
    plan = results.read_plan()
    kept: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for name, entry in plan["ablations"].items():
        if len(seen) < trials:
            kept[name] = entry
            seen |= {cell["trial"] for cell in entry["cells"]}
    results.write_plan({**plan, "ablations": kept})
    return root


def reported(root: Path) -> tuple[float, float]:
    """Seconds and most MiB of a report, over all its processes; shared pages count once."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "ablations", "report", "--results", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0.0
    while process.poll() is None:
        with contextlib.suppress(psutil.NoSuchProcess):
            own = psutil.Process(process.pid)
            most = max(most, _memory([own, *own.children(recursive=True)]))
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_PAUSE)
    assert process.returncode == 0
    return time.monotonic() - begun, most / 2**20


def _memory(processes: Iterable[psutil.Process]) -> float:
    held = 0.0
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            held += process.memory_full_info().pss
    return held


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="tells shared memory by Linux")
def test_five_hundred_trials_become_a_page(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Aim on two cores: 90 s for a thousand trials, and 1 GiB."""
    took = {125: reported(part_of_reference(tmp_path / "125", 125))}
    root = part_of_reference(tmp_path / "500", 500)
    took[500] = benchmark.pedantic(lambda: reported(root), rounds=1)
    benchmark.extra_info["seconds_and_mib"] = {str(trials): each for trials, each in took.items()}
    figures = len([*(root / "figures").rglob("*.svg")])
    with capsys.disabled():
        for trials, (seconds, memory) in took.items():
            print(f"\n{trials} trials: {seconds:.0f} s, {memory:.0f} MiB", end="")
        print(f"; {figures} figures")
    assert took[500][0] / took[125][0] < 6, "the cost of a trial grows with their number"
