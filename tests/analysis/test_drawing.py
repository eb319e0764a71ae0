"""Figures drawn by several processes are the same, and nobody goes on drawing for the dead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from watching import Watch

from analysis import drawing
from analysis.evidence import gather
from analysis.placing import placed

ROOT = Path(__file__).parents[2]


def test_two_processes_draw_what_one_draws(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, task in (("width", "g2p"), ("depth", "text")):
        folder.ablation(name, [f"{name} 1", f"{name} 2"], seeds=[0, 1], task=task)
        for seed in (0, 1):
            folder.record(f"{name} 1", seed, 0.2 + 0.01 * seed)
            folder.record(f"{name} 2", seed, 0.3 + 0.02 * seed)
    wanted = placed(gather(folder.root))
    alone = [each.paths for each in drawing.draw(wanted, folder.root)]
    before = {path: path.read_bytes() for paths in alone for path in paths}
    assert len(before) >= 6
    for path in before:
        path.unlink()
    monkeypatch.setattr(drawing, "MANY", 1)
    done: list[str] = []
    drawing.draw(wanted, folder.root, processes=2, meanwhile=lambda: done.append("once"))
    assert done == ["once"]
    assert {path: path.read_bytes() for path in before} == before


WAITING = """
import os, sys, time
from analysis.drawing import _workers

def say(_): print(os.getpid(), flush=True); time.sleep(600)

if __name__ == "__main__":
    with _workers(2) as run:
        list(run(say, [0]))
"""


def test_a_worker_ends_with_the_report_that_it_draws_for(tmp_path: Path) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(WAITING)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(script)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with Watch() as watch, subprocess.Popen(command, text=True, env=environment, **pipes) as report:
        assert report.stdout is not None
        watch.add(int(report.stdout.readline()))
        report.kill()
        watch.assert_gone()
