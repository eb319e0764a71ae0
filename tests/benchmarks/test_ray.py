"""What scheduling on Ray costs: jobs that do nothing, and the memory of whoever hands them out."""

from __future__ import annotations

import time
from typing import Any

import psutil
import pytest

from ablations.sweep.launch import Job, Outcome
from ablations.sweep.launch.ray.launcher import RayLauncher

JOBS = 1_000
GROWTH = 64 << 20  # bytes that the driver may grow by, whatever the number of jobs


@pytest.mark.usefixtures("all_cores")
def test_jobs_that_do_nothing(benchmark: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As a sweep hands them out: as many at once as there are workers."""
    driver = psutil.Process()
    took: dict[str, float] = {}

    def ended(launcher: RayLauncher, prefix: str, number: int) -> int:
        for index in range(number):
            launcher.submit(Job(f"{prefix}{index}", "operator:is_", {}))
        return sum(isinstance(e, Outcome) and e.status == "done" for e in launcher.events())

    with RayLauncher(2) as launcher:
        begun = time.perf_counter()
        assert ended(launcher, "first", 100) == 100  # torch is loaded, leases are taken
        took["first"] = time.perf_counter() - begun
        before = driver.memory_info().rss

        def sweep() -> None:
            begun = time.perf_counter()
            assert ended(launcher, "job", JOBS) == JOBS
            took["all"] = time.perf_counter() - begun

        benchmark.pedantic(sweep, rounds=1)
        grown = driver.memory_info().rss - before
    rate = JOBS / took["all"]
    benchmark.extra_info.update(rate=rate, grown=grown, first=took["first"])
    with capsys.disabled():
        print(f"\n{JOBS:,} empty jobs on Ray with two workers: {rate:,.0f} a second;")
        print(f"  the driver grew by {grown / 1e6:.0f} MB; the first 100: {took['first']:.1f} s")
    assert grown <= GROWTH
