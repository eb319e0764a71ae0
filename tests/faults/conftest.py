"""Sweeps of toy trials, each in a real process."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from watching import Watch

from ablations.jobs import RunConfig
from ablations.launch.local import LocalLauncher
from ablations.runner import run
from ablations.store.results import Results

Sweep = Callable[..., Counter[str]]
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "ablations")]  # importlib mode adds none by itself


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    """Its jobs end when they are told to, however long a busy machine takes for that."""
    import processes

    monkeypatch.setenv("PYTHONPATH", processes.PATH)  # where the server finds modules
    with LocalLauncher(2, preload=["toy_trials"], grace=60.0) as launcher:
        yield launcher


@pytest.fixture
def sweep(results: Results, launcher: LocalLauncher) -> Callable[..., Counter[str]]:
    """Runs toy trials from here, each in a real process."""
    import sweep_jobs
    import toy_trials

    def start(
        trials: dict[str, dict[str, Any]], results: Results = results, **options: Any
    ) -> Counter[str]:
        plan = sweep_jobs.toy_plan(trials)
        options = {"call": toy_trials.CALL, "poll": 0.0, **options}
        return run(RunConfig(plan, results, "cpu", **options), launcher)

    return start


@pytest.fixture
def watch() -> Iterator[Watch]:
    with Watch() as watch:
        yield watch
