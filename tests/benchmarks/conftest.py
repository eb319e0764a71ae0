"""Benchmarks run on the timing core: one thread, on one core, as a trial's worker has it."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

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
