"""run --devices: what it takes, and what it refuses in one line."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest
import torch

from ablations.commands import main
from ablations.commands.arguments import machine_of

MISTAKES = [
    (["--devices", "0"], "--devices 0: expected a whole number from 1"),
    (["--devices", "two"], "--devices two: expected a whole number from 1"),
    (["--devices", "1.5"], "--devices 1.5: expected a whole number from 1"),
    (["--device", "cpu:0", "--devices", "2"], "--devices 2: say --device cpu, without a"),
    (["--device", "cuda", "--devices", "3"], "--devices 3: this machine has 2 (cuda)"),
    (["--devcies", "2"], "'--devices'"),
    (["--devices", "2", "--pack", "3"], "--pack and --devices do not go together"),
    (["--pack", "0"], "--pack 0: expected a whole number from 1"),
]


def test_a_mistake_is_one_line_and_nothing_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "ablations.train.device.pick_device", lambda word: torch.device(word or "cpu")
    )
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    for words, why in MISTAKES:
        assert main(["run", "norm", "--profile", "smoke", *words]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert why in err
        assert [*tmp_path.iterdir()] == []


def test_as_many_trials_run_at_once_as_have_a_core_for_each_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ablations.commands.arguments.cores", lambda: 8)
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    for devices, jobs, words in ((1, 8, "8 cores"), (2, 4, "8 cores"), (3, 2, "6 cores")):
        on = machine_of(Namespace(device="cpu", jobs=None, devices=devices, pack=1))
        assert (on.jobs, on.at_once, str(on)) == (jobs, jobs, words)
