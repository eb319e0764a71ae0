"""How long people wait for an answer at the terminal, from typing to prompt: imports count.

The aims: every experiment planned in 5 s, two variants compared in 5 s, a folder of 400 trials
looked at in 2 s.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ablations.plan import make_plan
from ablations.plan_document import merge_into
from ablations.spec import experiments
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.words import place_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("all_cores")


def ask(folder: Path, *words: str) -> str:
    """What a command answers in a process of its own."""
    asked = [sys.executable, "-m", "ablations", *words]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(asked, cwd=folder, env=env, capture_output=True, text=True, check=True)
    return done.stdout


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
    for want in plan.trials.values():
        results.write(
            Record(want.id, "ok", want.config, env={"code": want.code}, measurements=curve)
        )
    told = benchmark.pedantic(ask, (tmp_path, "status", "--results", str(results.root)), rounds=3)
    assert f"{len(plan.trials)} ok" in told
    first = next(iter(results.read_plan()["ablations"].values()))["cells"][0]
    assert place_of(first["variant"], first["factors"]) in told
