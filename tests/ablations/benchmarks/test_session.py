"""A timing session: who is timed where, beside whom, and who is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

from ablations.benchmarks import session as sessions
from ablations.benchmarks.session import time_session
from ablations.benchmarks.timing import TimingConfig
from ablations.measurement import Benchmark, Metric, Place
from ablations.store.record import Measurement

Takes = Callable[[Place], float]
"""Where it is timed → seconds of a call; it may raise instead."""
QUICK: Takes = lambda at: 0.0625  # noqa: E731
EXACT = {"processes": 1, "blocks": 5, "warmup": 1, "sample_seconds": 0.0, "cap_seconds": 1e9}
LENGTHS: list[Place] = [{"length": n, "batch": 1} for n in (10, 20, 40, 80)]


class Planted(Benchmark):
    """Takes as long as its settings say, by a clock of its own."""

    metrics: ClassVar = {"planted_time": Metric("s", "lower", "time", repeats="processes")}
    places: ClassVar = {"length": [10], "batch": [1]}
    now = 0.0
    log: ClassVar[list[tuple[str, Any]]] = []

    def prepare(
        self, config: dict[str, Any], task: Any, device: torch.device, at: Place
    ) -> Callable[[], None]:
        Planted.log.append((config["name"], at["length"]))
        config.get("build", lambda at: None)(at)

        def call() -> None:
            Planted.now += config["takes"](at)

        return call


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "in_child", lambda work, told: (work(told), None))
    monkeypatch.setattr(sessions, "load_task", lambda text: None)
    clock = SimpleNamespace(perf_counter=lambda: Planted.now)
    monkeypatch.setattr("ablations.benchmarks.timing.time", clock)
    monkeypatch.setattr(Planted, "now", 0.0)
    Planted.log.clear()


def run(
    *places: Place,
    reference: Takes = QUICK,
    measure: Benchmark | None = None,
    build: dict[str, Any] | None = None,
    takes: dict[str, Takes],
    told: Callable[[float, str], None] = lambda fraction, note: None,
    **timing: Any,
) -> dict[str, list[Measurement]]:
    def config(name: str, each: Takes) -> dict[str, Any]:
        own = {"build": build[name]} if build and name in build else {}
        return {"name": name, "takes": each, "task": {}, **own}

    candidates = {name: config(name, each) for name, each in takes.items()}
    settings = TimingConfig(**{**EXACT, **timing})
    given = [measure or Planted(), config("reference", reference), candidates]
    return time_session(*given, places, settings, torch.device("cpu"), told)


def times(measurements: Sequence[Measurement]) -> list[Measurement]:
    return [measurement for measurement in measurements if measurement.metric == "planted_time"]


def raising(error: Exception) -> Callable[[Place], float]:
    def takes(at: Place) -> float:
        raise error

    return takes


# Who is left out.


def test_each_series_is_walked_on_its_own() -> None:
    places: list[Place] = [{"length": n, "batch": b} for n in (20, 10) for b in (4, 1)]
    run(*places, takes={"a": lambda at: 0.5 if at["batch"] == 4 else 0.125}, call_seconds=0.75)
    assert [far for name, far in Planted.log if name == "a"] == [10, 20, 10]


def test_what_would_take_too_long_is_not_tried_and_the_others_go_on() -> None:
    takes: dict[str, Takes] = {
        "slow": lambda at: float(at["length"]) / 40,
        "slower": lambda at: 0.125 if at["length"] == 10 else 5.0,
        "quick": QUICK,
    }
    found = run(*LENGTHS, takes=takes, call_seconds=1.0)
    late = "time-out: a call takes"
    assert {name: [each.reason for each in times(found[name])] for name in takes} == {
        "slow": [None, None, None, f"{late} 1 s at 40 already"],
        "slower": [None, f"{late} 5 s", *[f"{late} 5 s at 20 already"] * 2],
        "quick": [None] * 4,
    }
    assert all(each.samples for name in takes for each in times(found[name]) if not each.reason)
    assert ("slow", 80) not in Planted.log, "it is not even built"


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ("built", MemoryError()),
        (
            "called",
            RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: 7 b\nmore"),
        ),
        ("called", RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")),
    ],
    ids=["MemoryError", "allocator", "accelerator"],
)
def test_running_out_of_memory_costs_the_candidate_alone(where: str, error: Exception) -> None:
    failing = raising(error)
    build = {"a": failing} if where == "built" else {}
    takes = {"a": QUICK if where == "built" else failing, "b": QUICK}
    found = run(LENGTHS[0], takes=takes, build=build)
    (bad,) = found["a"]
    assert (bad.samples, bad.value) == (None, None)
    assert (bad.reason or "").startswith("out of memory: ")
    assert "\n" not in (bad.reason or "")
    assert len(times(found["b"])[0].samples or []) == 5


# Beside whom.


def test_a_slow_call_has_two_blocks_and_so_has_its_reference() -> None:
    ages = iter(range(1, 100))
    aging: Takes = lambda at: next(ages) / 1024  # noqa: E731
    found = run(LENGTHS[0], reference=aging, takes={"slow": lambda at: 0.5, "quick": QUICK})
    (slow,), (quick,) = (times(found[name]) for name in ("slow", "quick"))
    for few, many in ((slow.reference, quick.reference), (slow.twin, quick.twin)):
        assert (len(few), len(many)) == (2, 5)
        assert few == many[:2], "of the same blocks"
    assert (len(slow.samples or []), len(quick.samples or [])) == (2, 5)


def test_without_a_reference_there_are_times_alone() -> None:
    found = run(LENGTHS[0], reference=raising(ValueError("no")), takes={"a": QUICK})
    (time,) = times(found["a"])
    assert time.samples == [0.0625] * 5
    assert (time.reference, time.twin) == (None, None)


def test_a_reference_may_stand_at_a_place_of_its_own() -> None:
    class Beside(Planted):
        beside: ClassVar = {"length": 10}

    takes: Takes = lambda at: float(at["length"]) / 1024  # noqa: E731
    (time,) = run(LENGTHS[2], reference=takes, takes={"a": takes}, source=Beside())["a"][:1]
    assert (time.samples, time.reference) == ([40 / 1024] * 5, [10 / 1024] * 5)
    assert time.coordinates == LENGTHS[2]


# In several processes.


def test_the_first_process_decides_who_is_left_out() -> None:
    tries: dict[str, int] = {}

    def fails_in(name: str, process: int) -> Callable[[Place], None]:
        def build(at: Place) -> None:
            tries[name] = tries.get(name, -1) + 1
            if tries[name] == process:
                raise ValueError(f"{name} is tired")

        return build

    build = {"first": fails_in("first", 0), "second": fails_in("second", 1)}
    found = run(LENGTHS[0], takes={"first": QUICK, "second": QUICK}, build=build, processes=3)
    assert [r.reason for r in times(found["first"])] == ["first is tired"] * 3
    assert tries["first"] == 0, "the others do not try it"
    assert [r.reason for r in times(found["second"])] == [None, "second is tired", None]


def test_a_longer_call_of_as_many_tokens_is_tried_where_the_shorter_was_in_time() -> None:
    places: list[Place] = [{"length": n, "batch": 80 // n, "tokens": 80} for n in (10, 80)]
    found = times(run(*places, takes={"a": lambda at: 0.125}, call_seconds=0.5)["a"])
    assert all(measurement.samples for measurement in found)
    takes: dict[str, Takes] = {"a": lambda at: 0.125 if at["length"] == 10 else 0.75}
    late = times(run(*places, {**places[1], "length": 160}, takes=takes, call_seconds=0.5)["a"])
    assert [bool(measurement.samples) for measurement in late] == [True, False, False]


def test_a_process_that_dies_is_told_and_the_others_stand(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([True, False, True])

    def here(work: Any, told: Any) -> tuple[Any, str | None]:
        return (work(told), None) if next(answers) else (None, "killed")

    monkeypatch.setattr(sessions, "in_child", here)
    found = times(run(LENGTHS[0], takes={"a": QUICK}, processes=3)["a"])
    assert [measurement.session for measurement in found] == ["0", "2"]
    assert all(measurement.samples for measurement in found)
