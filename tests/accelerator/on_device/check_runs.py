"""Whole runs on the device: records equal to the CPU's, and failures that cost one trial."""

from __future__ import annotations

import json
import math
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from ablations.commands import main
from ablations.store.record import Record
from ablations.store.results import Results

PROGRAM = [sys.executable, "-m", "ablations"]
COUNT = torch.accelerator.device_count()
BENCHMARKS = {"throughput": {"length": [8, 16], "batch": [2], "pass": ["training"]}}


def command(file: str, folder: Path, *words: str) -> list[str]:
    return ["run", file, "--profile", "smoke", "--results", str(folder), *words]


Records = dict[tuple[str, int], Record]
"""Variant and seed → record."""


def records(file: str, folder: Path, *words: str) -> Records:
    """The records of a run."""
    assert main(command(file, folder, *words)) in (0, 1)
    return stored(folder)


def stored(folder: Path) -> Records:
    results = Results(folder)
    trials = [t for e in results.read_plan()["experiments"].values() for t in e["trials"]]
    found = {(t["variant"], t["seed"]): results.read(t["id"]) for t in trials}
    return {place: record for place, record in found.items() if record is not None}


def losses(record: Record) -> list[float]:
    return [
        m.value
        for m in record.measurements
        if m.metric == "loss" and m.split in ("train", "valid") and m.value is not None
    ]


def equal(one: Record, two: Record) -> bool:
    pairs = zip(losses(one), losses(two), strict=True)
    return one.status == two.status and all(math.isclose(a, b, rel_tol=1e-3) for a, b in pairs)


def assert_equal_to(on_cpu: Records, there: Records) -> None:
    assert there, "the run left no record"
    for place, record in there.items():
        assert equal(record, on_cpu[place]), place


@pytest.fixture
def on_cpu(ask: Callable[..., str], tmp_path: Path) -> Records:
    return records(ask(), tmp_path / "cpu", "--device", "cpu", "--seeds", "2")


def test_a_run_has_the_records_of_the_cpu_but_for_a_model_that_does_not_fit(
    ask: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    variants = {"with": {}, "large": {"model.d_model": 512, "model.n_heads": 1}}
    file = ask(variants=variants, evaluations=["quality"], benchmarks=BENCHMARKS)
    here = records(file, tmp_path / "cpu", "--device", "cpu")
    monkeypatch.setenv("STANDIN_BYTES", "8000000")
    there = records(file, tmp_path / "device")
    assert "timed" in capsys.readouterr().out
    assert there["large", 300].status == "oom"
    record, known = there["with", 300], here["with", 300]
    assert record.env["device"] == "standin (stand-in)"
    assert not record.failures
    assert equal(record, known)
    names = {(m.metric, m.split) for m in record.measurements if m.reason is None}
    assert names == {(m.metric, m.split) for m in known.measurements if m.reason is None}


def test_a_plan_measures_how_quick_the_device_is(
    ask: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *command(ask(), tmp_path / "device")[1:]]) == 0
    assert re.search(
        rf"device-hours on {COUNT if COUNT > 1 else ''}.*standin", capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "words",
    [
        *([("--devices", "2")] if COUNT > 1 else []),
        pytest.param(("--pack", "2", "--seeds", "2"), marks=pytest.mark.soak),
    ],
    ids=lambda words: words[0],
)
def test_seeds_as_one_model_and_a_trial_on_two_devices_learn_as_on_the_cpu(
    words: tuple[str, ...], ask: Callable[..., str], tmp_path: Path, on_cpu: Records
) -> None:
    there = records(ask(), tmp_path / "device", *words)
    assert_equal_to(on_cpu, there)


@pytest.mark.soak
def test_the_driver_of_a_run_opens_no_device(ask: Callable[..., str], tmp_path: Path) -> None:
    """A device in exclusive mode takes one process, which must be a worker's."""
    run = command(ask(), tmp_path / "device", "--device", "standin:0")
    program = f"from ablations.commands import main; assert main({run!r}) == 0"
    program += "; import torch; assert not torch.ops.standin.is_open()"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.soak
def test_half_precision_trains(ask: Callable[..., str], tmp_path: Path) -> None:
    there = records(ask(), tmp_path / "device", "train.precision=bfloat16")
    assert len(there) == 2
    assert {record.status for record in there.values()} <= {"ok", "stuck"}


@pytest.mark.soak
def test_a_killed_process_costs_its_trial_an_attempt(
    ask: Callable[..., str], tmp_path: Path, on_cpu: Records
) -> None:
    folder = tmp_path / "device"
    with subprocess.Popen([*PROGRAM, *command(ask(), folder)]) as driver:
        while not (workers := [p for p in _workers(driver.pid) if _has_lease(folder)]):
            time.sleep(0.02)
        workers[0].send_signal(signal.SIGKILL)
    assert driver.returncode == 0
    assert_equal_to(on_cpu, stored(folder))


def _workers(driver: int) -> list[psutil.Process]:
    """The processes below the fork server."""
    try:
        return [w for server in psutil.Process(driver).children() for w in server.children()]
    except psutil.Error:
        return []


def _has_lease(folder: Path) -> bool:
    return (folder / "leases").is_dir() and any((folder / "leases").iterdir())


@pytest.mark.soak
def test_a_training_that_was_stopped_goes_on_on_another_device(
    ask: Callable[..., str], tmp_path: Path
) -> None:
    settings = {"train.steps": 400, "train.evaluations": 2}
    file = ask(variants={"with": {}}, settings={**_settings(ask), **settings})
    folder = tmp_path / "device"
    with subprocess.Popen([*PROGRAM, *command(file, folder, "--device", "standin:0")]) as driver:
        while not any((folder / "leases").glob("*")) or not _workers(driver.pid):
            time.sleep(0.02)
        time.sleep(0.5)
        driver.send_signal(signal.SIGTERM)
    assert list((folder / "checkpoints").glob("*.unfinished*")), "it was not stopped in training"
    there = records(file, folder, "--device", f"standin:{COUNT - 1}")
    whole = records(file, tmp_path / "whole", "--device", "standin:0")
    assert losses(there["with", 300]) == losses(whole["with", 300])


def _settings(ask: Callable[..., str]) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(Path(ask("plain")).read_text())["settings"]
    return settings
