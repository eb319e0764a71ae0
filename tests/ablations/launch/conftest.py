"""What tests of launchers share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from toy_slurm import ToySlurm


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ToySlurm:
    """A Slurm whose commands are found first, and whose machine is this one."""
    toy = ToySlurm(tmp_path / "toy")
    monkeypatch.setenv("PATH", str(toy.install()), prepend=os.pathsep)
    return toy
