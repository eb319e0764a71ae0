"""What the runner costs: the start of a job."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.jobs import RunConfig, TrainingJob
from ablations.launch import Job
from ablations.launch.local import LocalLauncher
from ablations.plan import Plan, make_plan
from ablations.store.results import Results
from ablations.tasks.task import announce

QUESTIONS = ["norm/g2p", "scale/g2p"]
PRELOAD = ["torch", "ablations.preload"]  # as `python -m ablations run` has it

pytestmark = pytest.mark.usefixtures("all_cores")


@pytest.fixture
def plan() -> Iterator[Plan]:
    """A real smoke sweep, without the timing sessions: those have the machine to themselves."""
    plan = make_plan(QUESTIONS, "smoke", {}, [0, 1])
    for trial in plan.trials.values():
        trial.timings.clear()
    with announce(trial.config["task"] for trial in plan.trials.values()):
        yield plan


def test_the_start_of_a_job(
    benchmark: Any, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the launcher's side: the job is handed in, and it tells that its code runs."""
    setting = RunConfig(plan, Results(tmp_path / "out"), "cpu", [])
    trial = TrainingJob([next(iter(plan.trials.values()))], setting).job()
    assert trial is not None

    def seconds(launcher: LocalLauncher, job: Job) -> float:
        begun = time.perf_counter()
        launcher.submit(job)
        heard = [(event, time.perf_counter() - begun) for event in launcher.events()]
        assert heard[-1][0].status == "done"  # type: ignore[union-attr]
        return heard[0][1]

    with LocalLauncher(1, preload=PRELOAD) as launcher:
        first = seconds(launcher, trial)
        starts: list[float] = []
        benchmark.pedantic(lambda: starts.append(seconds(launcher, trial)), rounds=10)
        empty = [seconds(launcher, Job("empty", "operator:is_", {})) for _ in range(20)]
    benchmark.extra_info.update(starts=starts, empty=empty, first=first)
    with capsys.disabled():
        median = sorted(starts)[len(starts) // 2]
        print(f"\nstart of a trial: median {median:.3f} s, worst {max(starts):.3f} s;")
        print(f"  a job that does nothing, start to end: median {sorted(empty)[10]:.3f} s;")
        print(f"  the first of a sweep, which waits for torch and the data: {first:.1f} s")
