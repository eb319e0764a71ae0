"""Data is read once on a machine, however many Ray workers it has."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from launching import job, outcomes

from ablations.sweep.launch.ray.launcher import RayLauncher
from ablations.sweep.launch.ray.prepared import prepared
from ablations.tasks.cache import announce


class Read:
    """Data with a digest, and how often it was read."""

    times = 0

    def __init__(self, held: Any) -> None:
        type(self).times += 1
        self.held = held

    def digest(self) -> str:
        return "known"


@pytest.fixture(autouse=True)
def count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Read, "times", 0)


def ask(folder: Path, digest: str = "known", held: Any = "data", workers: int = 4) -> list[Any]:
    """What so many workers get that ask at the same time."""
    found: list[Any] = []
    start = threading.Barrier(workers)

    def work() -> None:
        start.wait()
        found.append(prepared(folder, "{}", digest, lambda: Read(held)).held)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_of_workers_that_ask_at_once_one_reads_and_the_others_have_what_it_read(
    tmp_path: Path,
) -> None:
    assert ask(tmp_path / "machine") == ["data"] * 4
    assert Read.times == 1
    assert ask(tmp_path / "another") == ["data"] * 4
    assert Read.times == 2


def test_data_that_is_not_the_drivers_is_not_kept(tmp_path: Path) -> None:
    assert ask(tmp_path, digest="other") == ["data"] * 4
    assert Read.times == 4
    assert not list(tmp_path.glob("*.pickle"))


def test_what_cannot_be_written_down_is_made_by_each(tmp_path: Path) -> None:
    endless = iter(int, 1)
    assert ask(tmp_path, held=(each for each in endless), workers=2)[0] is not None
    assert Read.times == 2
    assert not list(tmp_path.glob("*.pickle"))


def test_a_worker_finds_the_tasks_of_its_sweep_prepared() -> None:
    settings = {"name": "copy", "examples": 100}
    with announce([settings]), RayLauncher(2, imports=["worker_jobs"]) as launcher:
        found = outcomes(launcher, *(job(name, "prepared_tasks") for name in "abcd"))
    told = [outcome.value for outcome in found.values()]
    assert told == [{"found": 1, "kept": 1}] * 4, found
