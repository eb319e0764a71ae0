"""What the runner costs: the start of a job, and two workers beside one worker of two threads."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations.commands.arguments import cores
from ablations.measure.timing import TimingConfig, time_blocks
from ablations.plan.wanted import Plan, make_plan
from ablations.store.results import Results
from ablations.store.schema import FAILED
from ablations.sweep.jobs import Setting, TrialPiece
from ablations.sweep.launch import Job
from ablations.sweep.launch.local import LocalLauncher
from ablations.sweep.runner import run
from ablations.tasks.cache import announce
from analysis.stats import timing_ratio

QUESTIONS = ["norm", "scale"]
PRELOAD = ["torch", "ablations.sweep.preload"]  # as `python -m ablations run` has it
TIMING = TimingConfig(
    processes=1, blocks=4, slow_blocks=4, warmup=1, sample_seconds=0.0, cap_seconds=300.0
)

pytestmark = pytest.mark.usefixtures("all_cores")


@pytest.fixture
def plan() -> Iterator[Plan]:
    """A real smoke sweep, without the timing sessions: those have the machine to themselves."""
    plan = make_plan(QUESTIONS, "smoke", {}, [0, 1])
    for want in plan.wanted.values():
        want.timings.clear()
    with announce(want.config["task"] for want in plan.wanted.values()):
        yield plan


def test_the_start_of_a_job(
    benchmark: Any, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the launcher's side: the job is handed in, and it tells that its code runs."""
    setting = Setting(plan, Results(tmp_path / "out"), "cpu", [])
    trial = TrialPiece(next(iter(plan.wanted.values())), setting).job()
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
        print(f"\nstart of a trial: median {sorted(starts)[5]:.3f} s, worst {max(starts):.3f} s;")
        print(f"  a job that does nothing, start to end: median {sorted(empty)[10]:.3f} s;")
        print(f"  the first of a sweep, which waits for torch and the data: {first:.1f} s")


@pytest.mark.skipif(cores() == 1, reason="one core: two workers have nowhere to run")
def test_two_workers_beside_one_worker_of_two_threads(
    benchmark: Any, plan: Plan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class TwoThreads(LocalLauncher):
        def submit(self, job: Job) -> None:
            super().submit(replace(job, threads=2))

    folders = (Results(tmp_path / str(number)) for number in itertools.count())

    def sweep(launcher: LocalLauncher) -> Callable[[], None]:
        def call() -> None:
            counts = run(plan, next(folders), launcher, "cpu")
            assert counts.total() == len(plan.wanted)
            assert not any(counts[status] for status in FAILED)

        return call

    samples: dict[str, list[float]] = {}
    with LocalLauncher(2, preload=PRELOAD) as two, TwoThreads(1, preload=PRELOAD) as one:
        calls = {"workers": sweep(two), "threads": sweep(one)}
        benchmark.pedantic(
            lambda: samples.update(time_blocks(calls, TIMING, torch.device("cpu"))), rounds=1
        )
    ratio = timing_ratio(samples["threads"], samples["workers"])
    benchmark.extra_info.update(vars(ratio))
    with capsys.disabled():
        print(f"\n{len(plan.wanted)} smoke trials, one worker of two threads over two workers:")
        print(f"  {ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f});", end=" ")
        print(f"two workers take {min(samples['workers']):.1f} s")
