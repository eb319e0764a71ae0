"""A report is made anew exactly when something that it is made of has changed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main


@pytest.fixture
def reported(folder: Any) -> Path:
    folder.ablation("position", ["control", "none"], seeds=[0, 1])
    for label in ("control", "none"):
        for seed in (0, 1):
            folder.record(label, seed, 0.2 + 0.01 * seed + 0.3 * (label == "none"))
    assert main(["report", "--results", str(folder.root)]) == 0
    return folder.root


def stamp(root: Path) -> int:
    return (root / "report" / "index.html").stat().st_mtime_ns


def test_an_unchanged_folder_is_not_drawn_again(reported: Path) -> None:
    before = stamp(reported)
    words = "import sys; from analysis.__main__ import main; main(sys.argv[1:]); "
    words += "print(sorted({'matplotlib', 'pandas', 'torch'} & sys.modules.keys()))"
    command = [sys.executable, "-c", words, "report", "--results", str(reported)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *_, page, loaded = done.stdout.splitlines()
    assert page == str(reported / "report" / "index.html")
    assert loaded == "[]"
    assert stamp(reported) == before


def test_a_changed_record_or_a_lost_figure_makes_a_new_report(reported: Path, folder: Any) -> None:
    before = stamp(reported)
    folder.record("none", 1, 0.9)
    assert main(["report", "--results", str(reported)]) == 0
    changed = stamp(reported)
    assert changed != before
    shutil.rmtree(reported / "figures")
    assert main(["report", "--results", str(reported)]) == 0
    assert stamp(reported) != changed
    assert list((reported / "figures").iterdir())
