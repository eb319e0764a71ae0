"""What a whole report costs, with every figure: time and memory, and how the time grows.

The records are those of results/reference; where there are too few, some stand twice, under
names of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ablations.store.results import Results
from ablations.store.schema import SCHEMA, vouched
from ablations.store.stamp import ROOT
from analysis.reference import unpack

REFERENCE = ROOT / "results" / "reference"
_PAUSE = 2.0  # seconds between two looks at the memory, which take their time, too
_TRIAL = re.compile(rb'"([0-9a-f]{12})"')


def grown(root: Path, trials: int) -> Path:
    """The reference with so many of its trials, or more than all of them."""
    unpack(REFERENCE, root)
    results = Results(root)
    plan = results.read_plan()
    questions: dict[str, dict[str, Any]] = plan["ablations"]
    twice = {f"{name} again": _copied(results, entry) for name, entry in questions.items()}
    kept: dict[str, dict[str, Any]] = {}
    seen: set[str] = set()
    for name, entry in (*questions.items(), *twice.items()):
        if len(seen) < trials:
            kept[name] = entry
            seen |= {cell["trial"] for cell in entry["cells"]}
    results.write_plan({**plan, "ablations": kept})
    return root


def _copied(results: Results, entry: dict[str, Any]) -> dict[str, Any]:
    """The same question about copies of its trials."""
    for path in {results.path(cell["trial"]) for cell in entry["cells"]}:
        if path.is_file():
            rest = path.read_bytes().partition(b"\n")[2]
            rest = _TRIAL.sub(lambda found: b'"%b"' % _other(found[1]), rest)
            results.path(_other(path.stem.encode()).decode()).write_bytes(vouched(SCHEMA, rest))
    cells = [{**cell, "trial": _other(cell["trial"].encode()).decode()} for cell in entry["cells"]]
    return {**entry, "name": f"{entry['name']} again", "cells": cells}


def _other(trial: bytes) -> bytes:
    return hashlib.sha256(trial).hexdigest()[:12].encode()


def reported(root: Path) -> tuple[float, float]:
    """Seconds and most MiB of a report, over all its processes; shared pages count once."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "analysis", "report", "--results", str(root)]
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
def test_a_thousand_trials_become_a_page(
    benchmark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Aim: 90 s and 1 GiB on two cores; again, with nothing changed, a fraction of it."""
    took = {trials: reported(grown(tmp_path / str(trials), trials)) for trials in (250, 500)}
    root = grown(tmp_path / "1000", 1000)
    took[1000] = benchmark.pedantic(lambda: reported(root), rounds=1)
    again = reported(root)
    benchmark.extra_info["seconds_and_mib"] = {str(trials): each for trials, each in took.items()}
    figures = len([*(root / "figures").rglob("*.svg")])
    with capsys.disabled():
        for trials, (seconds, memory) in (*took.items(), ("the same 1000", again)):
            print(f"\n{trials} trials: {seconds:.0f} s, {memory:.0f} MiB", end="")
        print(f"; {figures} figures")
    assert took[1000][0] / took[250][0] < 6, "the cost of a trial grows with their number"
    assert again[0] < took[1000][0] / 2, "figures are drawn again though nothing changed"
