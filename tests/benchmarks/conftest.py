"""Benchmarks run on the timing core: one thread, on one core, as a trial's worker has it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # peers stand beside the benchmarks


@pytest.fixture(autouse=True, scope="session")
def timing_core() -> Iterator[None]:
    torch.set_num_threads(1)
    if hasattr(os, "sched_setaffinity"):  # Linux; elsewhere the system moves the thread about
        mine = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {max(mine)})
        yield
        os.sched_setaffinity(0, mine)
    else:
        yield
