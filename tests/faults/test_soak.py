"""The long form: real trials, killed at random moments, or shared by two sweeps."""

from __future__ import annotations

import contextlib
import random
import signal
import subprocess
from pathlib import Path

import psutil
import pytest
from processes import start
from small import facts

from ablations.store.results import Results

pytestmark = pytest.mark.soak

LONG = 1200.0  # seconds until a test gives up
KILLS = 20
TRIALS = 40
QUESTION = """\
question: Does a sweep that is killed end as one that is left alone?
task: g2p
held_constant: all else
changes: nothing
metric: per
evaluations: [quality]
baseline: with
variants:
  with: {}
  without: {model.position: none}
settings:
  {model.d_model: 16, train.steps: 20, train.batch_tokens: 256, train.parts: 1, task.words: 400,
   task.valid_words: 40, task.test_words: 40}
"""


@pytest.fixture
def question(tmp_path: Path) -> Path:
    file = tmp_path / "whole.yaml"
    file.write_text(QUESTION)
    return file


def start_sweep(
    drivers: list[subprocess.Popen[str]], question: Path, results: Results, jobs: int
) -> subprocess.Popen[str]:
    seeds = ",".join(map(str, range(TRIALS // 2)))
    words = ["run", str(question), "--profile", "smoke", "--seeds", seeds, "--jobs", str(jobs)]
    words += ["--results", str(results.root)]
    return start(drivers, "-m", "ablations", *words, stdout=subprocess.DEVNULL)


def kill_all(driver: subprocess.Popen[str]) -> None:
    """The whole process tree, and wait until it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        top = psutil.Process(driver.pid)
        family = [top, *top.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        driver.wait()
        _, alive = psutil.wait_procs(family, timeout=60)
        assert not alive


def test_a_sweep_killed_twenty_times_ends_with_the_records_of_one_left_alone(
    drivers: list[subprocess.Popen[str]], question: Path, tmp_path: Path
) -> None:
    """Fault 2."""
    alone, killed = Results(tmp_path / "alone"), Results(tmp_path / "killed")
    assert start_sweep(drivers, question, alone, jobs=2).wait(LONG) == 0
    moments, done = random.Random(0), []
    for _ in range(KILLS):
        driver = start_sweep(drivers, question, killed, jobs=2)
        assert driver.stderr
        # A sweep has to load its modules first: mostly kill it at work, sometimes before.
        for _ in range(moments.randrange(4)):
            driver.stderr.readline()
        with contextlib.suppress(subprocess.TimeoutExpired):
            driver.wait(moments.uniform(0.0, 0.5))
        kill_all(driver)
        done.append(len(list(killed.trials.glob("*.json"))))
    assert 0 < done[KILLS // 2] < TRIALS, "the kills must come while it is at work"
    assert start_sweep(drivers, question, killed, jobs=2).wait(LONG) == 0
    assert len(facts(alone)) == TRIALS
    assert facts(killed) == facts(alone)
