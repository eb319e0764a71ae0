"""run --devices: what it takes, and what it refuses in one line."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from ablations.commands import main
from ablations.commands.arguments import machine_of


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--devices", "0"], "--devices 0: expected a whole number from 1"),
        (["--devices", "two"], "--devices two: expected a whole number from 1"),
        (["--devices", "1.5"], "--devices 1.5: expected a whole number from 1"),
        (["--device", "cpu:0", "--devices", "2"], "--devices 2: say --device cpu, without a"),
        (["--device", "cuda", "--devices", "3"], "--devices 3: this machine has 2 (cuda)"),
        (["--device", "cpu", "--devices", "99999"], "--devices 99999: this machine has"),
        (["--devcies", "2"], "'--devices'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    why: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ablations.train.device.pick_device", lambda word: torch.device(word or "cpu")
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    assert main(["run", "norm", "--profile", "smoke", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert why in err
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("devices", "jobs", "words"),
    [(1, 8, "8 cores"), (2, 4, "8 cores"), (3, 2, "6 cores"), (8, 1, "8 cores")],
)
def test_as_many_trials_run_at_once_as_have_a_core_for_each_device(
    monkeypatch: pytest.MonkeyPatch, devices: int, jobs: int, words: str
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 8)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    on = machine_of(Namespace(device="cpu", jobs=None, devices=devices, pack=None))
    assert (on.jobs, on.at_once, str(on)) == (jobs, jobs, words)
