"""Jobs share accelerators as far as they say, and begin where the fewest others run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from launching import fifo, job, release

from ablations.launch import Progress
from ablations.launch.local import LocalLauncher
from ablations.train.device import how_many, settle

HERE = Path(__file__).parents[1]


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


@pytest.mark.parametrize(
    ("capacity", "devices", "shares", "began", "after"),
    [
        (4, 2, dict.fromkeys("abcde", 0.0), {"a": 0, "b": 1, "c": 0, "d": 1, "e": 0}, ["ae"]),
        (4, 2, {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5, "e": 1.0}, {"a": 0, "b": 1}, ["ae", "ce"]),
        (4, 2, {"a": 0.5, "b": 2.0, "c": 0.5}, {"a": 0, "b": 0, "c": 0}, ["ab", "bc"]),
        (3, 1, dict.fromkeys("abc", 1 / 3), dict.fromkeys("abc", 0), []),
        (2, 4, dict.fromkeys("abc", 2.0), {"a": 0, "b": 2, "c": 0}, ["ac"]),
    ],
    ids=["slots", "halves", "several", "thirds", "side by side"],
)
def test_jobs_begin_where_there_is_room_and_wait_where_there_is_none(
    capacity: int,
    devices: int,
    shares: dict[str, float],
    began: dict[str, int],
    after: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """`after` names pairs of which the second had to wait for the first."""
    monkeypatch.syspath_prepend(HERE)
    words = {"preload": (), "grace": 60.0, "devices": devices, "settle": "worker_jobs:take_slot"}
    with LocalLauncher(capacity, **words) as launcher:
        told = slots(launcher, tmp_path, shares)
    found = {name: int(slot) for name, slot in told if slot is not None}
    assert found.items() >= began.items()
    for first, second in after:
        assert told.index((first, None)) < told.index((second, str(found[second])))


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
