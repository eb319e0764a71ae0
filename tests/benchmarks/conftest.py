"""Benchmarks run on the timing core: one thread, on one core, as a trial's worker has it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ablations.benchmarks.session import TimingConfig, run_blocks, warm_up
from analysis.stats import ratio_ends

Calls = dict[str, Callable[[], None]]
Beside = Callable[[Calls, TimingConfig], tuple[dict[str, float], dict[str, tuple[float, ...]]]]

sys.path.insert(0, str(Path(__file__).parent))  # peers stand beside the benchmarks

CORES = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else {0}


@pytest.fixture(autouse=True, scope="session")
def timing_core() -> Iterator[None]:
    torch.set_num_threads(1)
    with on({max(CORES)}):
        yield


@pytest.fixture
def all_cores(timing_core: None) -> Iterator[None]:
    """For what starts workers of its own: they inherit the cores of whoever starts them."""
    with on(CORES):
        yield


@pytest.fixture
def beside(benchmark: Any) -> Beside:
    """Times calls side by side: seconds of each, and its ratio to the first with 95 % interval."""

    def time(
        calls: Calls, timing: TimingConfig
    ) -> tuple[dict[str, float], dict[str, tuple[float, ...]]]:
        samples: dict[str, list[float]] = {}

        def run() -> None:
            cpu = torch.device("cpu")
            warm = {name: warm_up(call, timing, cpu) for name, call in calls.items()}
            samples.update(run_blocks(calls, warm, timing, cpu))

        benchmark.pedantic(run, rounds=1, iterations=1)
        first = samples[next(iter(calls))]
        ratios = {
            name: tuple(ratio_ends(np.log(np.divide(taken, first)).tolist()))
            for name, taken in samples.items()
        }
        benchmark.extra_info.update(ratios)
        return {name: float(np.mean(taken)) for name, taken in samples.items()}, ratios

    return time


@contextlib.contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Keep to these cores; only Linux can, elsewhere the system moves the thread about."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    yield
    os.sched_setaffinity(0, before)
