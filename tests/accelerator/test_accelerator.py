"""What runs on an accelerator, run on a stand-in for one: see `standin/standin.cpp`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.skipif(
    shutil.which("g++") is None and "REQUIRE_ACCELERATOR" not in os.environ,
    reason="the stand-in accelerator needs g++",
)
@pytest.mark.parametrize(
    ("devices", "which"),
    [
        (1, "check_standin or check_runs"),
        (2, ""),
        *(pytest.param(devices, "all", marks=pytest.mark.soak) for devices in (1, 2)),
    ],
)
def test_everything_runs_on_an_accelerator(devices: int, which: str, tmp_path: Path) -> None:
    """In a process of its own, where torch finds that many stand-in devices."""
    folders = [ROOT, HERE / "standin", ROOT / "tests", ROOT / "tests/contracts"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))}
    env |= {"STANDIN_DEVICES": str(devices)}
    words = ["-m", "pytest", "-q", "-o", "python_files=check_*.py", f"--basetemp={tmp_path}"]
    words += ["-p", "no:xdist", str(HERE / "on_device")]
    words += [] if which == "all" else ["-m", "not soak", "-k", which]
    done = subprocess.run([sys.executable, *words], env=env, text=True, capture_output=True)
    print(done.stdout)
    assert done.returncode == 0, done.stderr
    assert "skipped" not in done.stdout
