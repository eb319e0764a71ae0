"""Workers have slots, slots have accelerators in turn, and jobs share one as far as they say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from launching import fifo, job, release

from ablations.sweep.launch import Progress
from ablations.sweep.launch.local import LocalLauncher
from ablations.train.device import how_many, settle

HERE = Path(__file__).parents[1]


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalLauncher]:
    """Four workers on two devices."""
    monkeypatch.syspath_prepend(HERE)
    with LocalLauncher(
        4, preload=(), grace=60.0, devices=2, settle="worker_jobs:take_slot"
    ) as launcher:
        yield launcher


def slots(
    launcher: LocalLauncher, folder: Path, shares: dict[str, float]
) -> list[tuple[str, str | None]]:
    """Jobs with these shares, of which one is let go as soon as all that run have begun: who began
    where, and who ended."""
    pipes = {name: fifo(folder, name) for name in shares}
    for name, share in shares.items():
        held = job(name, "hold_slot", fifo=pipes[name])
        launcher.submit(replace(held, accelerators=share))
    told: list[tuple[str, str | None]] = []
    held_back = list(shares)
    for event in launcher.events():
        told.append((event.job, event.note if isinstance(event, Progress) else None))
        begun = {name for name, slot in told if slot is not None}
        started = [name for name in held_back if name not in launcher._waiting]
        if started and begun >= set(started):
            held_back.remove(started[0])
            release(pipes[started[0]])
    return told


def began(told: list[tuple[str, str | None]]) -> dict[str, int]:
    return {name: int(slot) for name, slot in told if slot is not None}


def test_each_worker_has_a_slot_of_its_own_and_one_that_is_left_is_taken_again(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    told = slots(launcher, tmp_path, dict.fromkeys("abcde", 0.0))
    assert told.index(("a", None)) < told.index(("e", "0"))
    assert began(told) == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 0}


def test_jobs_share_a_device_as_far_as_it_goes(launcher: LocalLauncher, tmp_path: Path) -> None:
    """Two halves on each; what needs all of one waits for both of its halves."""
    told = slots(launcher, tmp_path, {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5, "e": 1.0})
    found = began(told)
    assert [found[name] % 2 for name in "abcd"] == [0, 1, 0, 1]
    ends = [told.index((name, None)) for name in "abcd" if found[name] % 2 == found["e"] % 2]
    assert max(ends) < told.index(("e", str(found["e"])))


def test_three_thirds_are_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(HERE)
    with LocalLauncher(3, preload=(), settle="worker_jobs:take_slot") as launcher:
        told = slots(launcher, tmp_path, dict.fromkeys("abc", 1 / 3))
    assert all(slot is not None for _, slot in told[:3]), "all began before any ended"


def test_a_job_that_needs_several_devices_has_them_and_no_other_beside_it(
    launcher: LocalLauncher, tmp_path: Path
) -> None:
    told = slots(launcher, tmp_path, {"a": 0.5, "b": 2.0, "c": 0.5})
    assert told.index(("a", None)) < told.index(("b", "0"))
    assert told.index(("b", None)) < told.index(("c", "0"))


def test_a_slot_means_an_accelerator_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[int] = []
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 3)
    monkeypatch.setattr(torch.accelerator, "set_device_index", chosen.append)
    for slot in range(7):
        settle(slot)
    assert chosen == [0, 1, 2, 0, 1, 2, 0]


def test_a_run_has_all_accelerators_or_the_one_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 8)
    assert how_many(torch.device("cuda")) == 8
    assert how_many(torch.device("cuda:3")) == 1


def test_jobs_of_two_devices_stand_side_by_side_on_four(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(HERE)
    with LocalLauncher(
        2, preload=(), grace=60.0, devices=4, settle="worker_jobs:take_slot"
    ) as launcher:
        told = slots(launcher, tmp_path, {"a": 2.0, "b": 2.0, "c": 2.0})
    assert began(told) == {"a": 0, "b": 2, "c": 0}
