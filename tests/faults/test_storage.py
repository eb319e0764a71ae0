"""Disks that are full or may only be read, and a report while others still write."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import start_toys
from small import DATA, config, plan_document, trial_of
from sweep_jobs import toy_plan
from toy_trials import starts
from watching import LONG

from ablations.commands import main
from ablations.missing import missing
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from analysis.load import load

Drivers = list[subprocess.Popen[str]]
Sweep = Callable[..., Counter[str]]
TRIALS: dict[str, dict[str, Any]] = {f"{n:012x}": {} for n in range(40)}


def mount(folder: Path, options: str) -> None:
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)],
        check=True,
        capture_output=True,
        timeout=LONG,
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own: 80 blocks of 4 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        mount(folder, "size=320k")
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"mounting a small file system takes a right that is lacking here ({error})")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=LONG)


def held(results: Results) -> dict[str, Record | None]:
    return {path.stem: results.read(path.stem) for path in results.trials.glob("*.json")}


# Full.


def test_a_full_disk_ends_a_sweep_in_one_line_and_the_next_goes_on(
    disk: Path, sweep: Sweep, drivers: Drivers
) -> None:
    """Fault 7. Room is made by a larger disk."""
    results = Results(disk / "out")
    (disk / "ballast").write_bytes(bytes(200_000))
    driver = start_toys(drivers, results, TRIALS, jobs=2)
    _, told = driver.communicate(timeout=LONG)
    assert (driver.returncode, "Traceback" in told) == (1, False)
    assert told.splitlines()[-1].startswith("No space left on device: ")
    before = held(results)
    assert 1 < len(before) < len(TRIALS)
    assert all(record and record.status == "ok" for record in before.values())
    assert list(results.trials.glob(".*")) == []  # no half of a record
    mount(disk, "remount,size=4m")
    sweep(TRIALS, results)
    after = held(results)
    assert after.keys() == TRIALS.keys()
    assert {trial: after[trial] for trial in before} == before


def test_a_disk_too_full_for_checkpoints_ends_a_sweep_though_records_would_fit(
    disk: Path, sweep: Sweep
) -> None:
    """Fault 7."""
    results = Results(disk / "out")
    trials = {trial: {"do": "disk", "bytes": 60_000} for trial in TRIALS}
    with pytest.raises(OSError, match="No space left on device"):
        sweep(trials, results)
    before = held(results)
    assert len(before) in (2, 3, 4)
    assert all(record and record.status == "ok" for record in before.values())
    assert len(starts(results.root)) <= len(before) + 3, "two that ran, and one that was ready"
    mount(disk, "remount,size=8m")
    assert sweep(trials, results)["ok"] == 40 - len(before)


# Read only.


@pytest.fixture
def read_only(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Callable[[], Results]]:
    """A results folder, and the act that makes it one that may only be read."""
    if os.geteuid() == 0:  # to whom modes say nothing
        disk: Path = request.getfixturevalue("disk")
        yield lambda: (mount(disk, "remount,ro"), Results(disk / "out"))[1]
        return
    folder = tmp_path / "out"
    yield lambda: ([p.chmod(0o555) for p in (folder, *folder.iterdir())], Results(folder))[1]
    for path in (folder, *folder.iterdir()):
        path.chmod(0o755)


def test_a_folder_that_may_only_be_read_is_refused_before_any_compute(
    read_only: Callable[[], Results], tmp_path: Path, drivers: Drivers
) -> None:
    """Fault 8."""
    results = Results((tmp_path / "disk" if os.geteuid() == 0 else tmp_path) / "out")
    some = dict(list(TRIALS.items())[:2])
    results.check_writable()
    results.write(Record("0" * 12, "ok", {}))
    read_only()
    driver = start_toys(drivers, results, some)
    _, told = driver.communicate(timeout=LONG)
    assert (driver.returncode, told.count("\n")) == (1, 1)
    assert told.startswith(("Read-only file system: ", "Permission denied: "))
    assert starts(results.root) == []
    with pytest.raises(OSError, match=r"Read-only|Permission"):
        results.check_writable()
    assert len(missing(toy_plan(some), results, None).train) == 1  # a look is free


# A report while a sweep runs.


CONFIGS = [config(label, seed) for label in ("with", "without") for seed in range(5)]


def asked() -> dict[str, Any]:
    cells = [
        {"variant": own["model"]["variant"], "seed": own["seed"], "id": trial_of(own),
         "sources": ["quality"]}
        for own in CONFIGS
    ]  # fmt: skip
    return plan_document({"one": cells})


def scored(own: dict[str, Any], attempts: int) -> Record:
    losses = [
        Measurement("per", "edits/phone", 0.25 + n / 99, "valid", {"step": n}) for n in range(99)
    ]
    given: Any = {"data": DATA, "sources": {"quality": {}}, "measurements": losses}
    env = {"device": "cpu", "torch": "2"}
    return Record(trial_of(own), "ok", own, attempts=attempts, env=env, **given)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[int]:
    """A process that writes seven of ten records, and then writes them anew for ever."""
    results = Results(tmp_path)
    results.write_plan(asked())
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            attempts = 0
            while True:
                attempts += 1
                for own in CONFIGS[:7]:
                    results.write(scored(own, attempts))
                if attempts == 1:
                    os.write(tell, b".")
        finally:
            os._exit(7)
    os.close(tell)
    assert os.read(told, 1) == b"."
    os.close(told)
    yield child
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_report_during_a_sweep_is_whole_and_says_that_it_is_partial(
    tmp_path: Path, writer: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 15."""
    for _ in range(10):
        loaded = load(tmp_path)
        assert (loaded.done(), loaded.unreadable) == ((7, 10), {})
    assert main(["report", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().err == ""
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "This report is partial: 7 of 10 trials are done." in " ".join(page.split())
    assert os.waitid(os.P_PID, writer, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None  # it wrote on
