"""--pack: what is asked for, what is timed instead, and what a plan then says."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from in_process import InProcess

from ablations.commands.arguments import Machine, machine_of
from ablations.commands.launching import local_launcher
from ablations.commands.packing import Packing
from ablations.commands.plan import price, training_words
from ablations.plan.missing import missing
from ablations.plan.wanted import Plan, Want, make_plan
from ablations.plan.ways import Way, kept_ways
from ablations.store.results import Results

Ask = Callable[..., str]
CUDA, CPU = torch.device("cuda"), torch.device("cpu")


@pytest.fixture(autouse=True)
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablations.train.device.device_name", lambda device: f"{device} (a board)")


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return make_plan([ask()], "smoke", {}, list(range(10)))


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out")


class FakeClock:
    """Ten in a pack cost a trial a quarter, and two workers a device a half, of 8 s alone."""

    def __init__(self) -> None:
        self.asked: list[Way] = []

    def __call__(self, _: Want, way: Way) -> float:
        self.asked.append(way)
        return 8.0 / (4 if way.packed > 1 else 1) / (2 if way.workers > 1 else 1)


def packing(results: Results, on: Machine, clock: FakeClock, launcher: Any = None) -> Packing:
    return Packing(Namespace(imports=[]), results, launcher or InProcess(), on, clock)


def nobody() -> list[Want]:
    pytest.fail("nobody needs to know what is lacking")


@pytest.mark.parametrize(
    ("on", "way"),
    [
        (Machine(CPU, 2), Way(1, 2)),
        (Machine(CPU, 2, pack=3), Way(3, 2)),
        (Machine(CUDA, 2, 2, "never"), Way(1)),
        (Machine(CUDA, 6, 2, "never"), Way(1, 3)),
        (Machine(CUDA, 2, 2, 5), Way(5)),
    ],
)
def test_what_is_asked_for_is_not_timed(
    plan: Plan, results: Results, on: Machine, way: Way
) -> None:
    ways = packing(results, on, FakeClock()).ways(nobody)
    assert {ways(want) for want in plan.wanted.values()} == {way}


def test_what_cannot_be_packed_is_trained_alone_whatever_is_asked_for(
    ask: Ask, results: Results
) -> None:
    plan = make_plan([ask()], "smoke", {"model.dropout": 0.1}, [0])
    ways = packing(results, Machine(CPU, 1, pack=3), FakeClock()).ways(nobody)
    assert {ways(want) for want in plan.wanted.values()} == {Way()}


def test_the_quickest_way_is_timed_once_told_in_one_line_and_kept(
    plan: Plan, results: Results, capsys: pytest.CaptureFixture[str]
) -> None:
    wants, clock = list(plan.wanted.values()), FakeClock()
    on = Machine(CUDA, 2, 1, "auto")
    ways = packing(results, on, clock).ways(lambda: wants)
    assert clock.asked == [Way(1), Way(1, 2), Way(10), Way(10, 2)]
    assert {ways(want) for want in wants} == {Way(10, 2)}
    told = capsys.readouterr().err
    assert told.startswith("Timed on cuda: g2p, ")
    assert told.endswith(": 10 seeds packed, 2 workers a device (8.0×)\n")
    assert told.count("\n") == 1
    assert kept_ways(results).exists()
    again = packing(results, on, clock).ways(lambda: wants)
    assert {again(want) for want in wants} == {Way(10, 2)}
    assert len(clock.asked) == 4, "nothing is timed again"
    assert capsys.readouterr().err == ""
    packing(results, Machine(CUDA, 4, 2, "auto"), clock).ways(lambda: wants)
    assert len(clock.asked) > 4, "of other devices nothing is known"


@pytest.mark.parametrize(("devices", "packed"), [(1, 10), (2, 5), (5, 2), (8, 2), (40, 1)])
def test_packs_are_no_larger_than_leaves_work_for_every_device(
    plan: Plan, results: Results, devices: int, packed: int
) -> None:
    """Of twenty trials, with two workers on each."""
    wants = list(plan.wanted.values())
    on = Machine(CUDA, 2 * devices, devices, "auto")
    ways = packing(results, on, FakeClock()).ways(lambda: wants)
    assert ways(wants[0]) == Way(packed, 2)


def test_where_nothing_is_lacking_nothing_is_timed_or_written(results: Results) -> None:
    clock = FakeClock()
    packing(results, Machine(CUDA, 2, 1, "auto"), clock).ways(list)
    assert clock.asked == []
    assert not results.root.exists()


def test_on_the_cpu_the_cores_are_one_device_that_all_jobs_share(
    plan: Plan, results: Results
) -> None:
    wants, clock = list(plan.wanted.values()), FakeClock()
    ways = packing(results, Machine(CPU, 2, pack="auto"), clock).ways(lambda: wants)
    assert clock.asked == [Way(1, 2), Way(10, 2)]
    assert ways(wants[0]) == Way(10, 2)


# plan.


def test_a_plan_tells_the_device_hours_of_the_quickest_way(plan: Plan, results: Results) -> None:
    """Twenty trials of 8 s alone; in packs by two workers each costs a device one second."""
    on = Machine(CUDA, 4, 2, "auto")
    lacks = missing(plan, results, None)
    clock = packing(results, on, FakeClock()).clock(lacks.train)
    totals, rows = price(plan, results, lacks, on, clock)
    assert totals["device_hours"] == pytest.approx(20 / 3600)
    assert totals["training"] == pytest.approx(10.0)
    assert [row["seconds_per_trial"] for row in rows] == pytest.approx([1.0, 1.0], rel=0.1)
    assert not results.root.exists(), "a plan writes nothing"


@pytest.mark.parametrize(
    ("on", "words"),
    [
        (Machine(CUDA, 8, 2, "auto"), "about 3 h of training, 6 device-hours on 2 × cuda"),
        (Machine(CUDA, 4, 1, "auto"), "about 3 h of training, 6 device-hours on cuda"),
        (Machine(CPU, 1), "about 3 h of training on 1 core"),
    ],
)
def test_a_plan_says_how_much_of_how_many_devices_it_takes(on: Machine, words: str) -> None:
    assert training_words({"training": 3 * 3600.0, "device_hours": 6.0}, on) == words


# The machine.


@pytest.fixture
def two_boards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ablations.train.device.pick_device", lambda word: torch.device(word))
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_boards")
@pytest.mark.parametrize(
    ("device", "jobs", "pack", "expected"),
    [
        ("cuda", None, None, Machine(CUDA, 8, 2, "auto")),
        ("cuda", None, 3, Machine(CUDA, 2, 2, 3)),
        ("cuda", None, "never", Machine(CUDA, 2, 2, "never")),
        ("cuda", 5, None, Machine(CUDA, 5, 2, "auto")),
        ("cuda:1", None, None, Machine(torch.device("cuda:1"), 4, 1, "auto")),
        ("cpu", 3, None, Machine(CPU, 3, 1, "never")),
        ("cpu", 3, "auto", Machine(CPU, 3, 1, "auto")),
    ],
)
def test_accelerators_are_used_all_and_packed_as_it_pays(
    device: str, jobs: int | None, pack: Any, expected: Machine
) -> None:
    assert machine_of(Namespace(device=device, jobs=jobs, pack=pack)) == expected


@pytest.mark.parametrize(
    ("on", "workers"),
    [(Machine(CUDA, 8, 2), [1, 2, 4]), (Machine(CUDA, 3, 1), [1, 2]), (Machine(CUDA, 1, 4), [1])],
)
def test_no_more_workers_share_a_device_than_there_are_jobs(
    on: Machine, workers: list[int]
) -> None:
    assert on.workers == workers


@pytest.mark.parametrize(("devices", "settled"), [(1, None), (3, "ablations.train.device:settle")])
def test_where_there_are_several_accelerators_each_worker_takes_its_own(
    devices: int, settled: str | None
) -> None:
    with local_launcher(Machine(CUDA, 6, devices), 6) as launcher:
        assert (launcher._devices, launcher._settle, launcher.capacity) == (devices, settled, 6)


@pytest.mark.parametrize("word", ["0", "-1", "some", "1.5", ""])
def test_a_pack_that_cannot_be_is_refused_in_one_line(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from ablations.commands import main

    assert main(["run", "norm", f"--pack={word}"]) == 2
    told = capsys.readouterr().err
    assert told == f"--pack {word}: expected auto, never or a number of seeds\n"
