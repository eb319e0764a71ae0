"""Drivers as processes of their own, each in a session of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from ablations.store.results import Results

HERE = Path(__file__).parent
PATH = os.pathsep.join([str(HERE), str(HERE.parents[1])])  # where they find modules


def start(
    drivers: list[subprocess.Popen[str]],
    *words: str,
    path: str = PATH,
    stdin: int | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Python with these words; it is ended with the test, as all in `drivers` are."""
    temporary = os.environ["XDG_CACHE_HOME"]  # what a killed driver leaves goes with the tests
    driver = subprocess.Popen(
        [sys.executable, *words],
        env=os.environ | {"PYTHONPATH": path, "TMPDIR": temporary},
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    drivers.append(driver)
    return driver


def start_toys(
    drivers: list[subprocess.Popen[str]],
    results: Results,
    trials: dict[str, dict[str, Any]],
    jobs: int = 1,
) -> subprocess.Popen[str]:
    """The command `run`, over toys."""
    words = ["run", "--jobs", str(jobs), "--results", str(results.root)]
    return start(drivers, str(HERE / "toy_command.py"), json.dumps(trials), *words)
