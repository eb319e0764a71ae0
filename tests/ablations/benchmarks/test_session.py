"""A timing session: who is timed where, beside whom, and who is left out and why."""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count, repeat
from types import SimpleNamespace
from typing import Any, ClassVar

import child_jobs
import psutil
import pytest
import torch

from ablations.benchmarks import session
from ablations.benchmarks.child import in_child
from ablations.benchmarks.session import (
    NOISY,
    Call,
    TimingConfig,
    Warm,
    Watch,
    run_blocks,
    time_session,
    warm_up,
)
from ablations.measurement import Benchmark, Metric, Place
from ablations.store.record import Measurement
from model.config import ConfigError

CPU = torch.device("cpu")
FAILING = {
    "MemoryError": partial(child_jobs.fail, MemoryError()),
    "allocate": partial(child_jobs.fail, RuntimeError("DefaultCPUAllocator: can't allocate\nmore")),
    "long long": partial(child_jobs.fail, ValueError("long " * 100)),
    "pickle": child_jobs.give_no_value,
    "killed": child_jobs.die,
}

NO_ROOM = "[enforce fail] DefaultCPUAllocator: can't allocate: 7 b\nmore"
MEMORY: list[tuple[str, Exception]] = [
    ("built", MemoryError()),
    ("called", RuntimeError(NO_ROOM)),
    ("called", RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")),
]

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
        if config["build"]:
            config["build"](at)

        def call() -> None:
            Planted.now += config["takes"](at)

        return call


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "in_child", lambda work, told: (work(told), None))
    monkeypatch.setattr(session, "load_task", lambda text: None)
    clock = {"monotonic": time.monotonic, "process_time": time.process_time}
    planted = SimpleNamespace(perf_counter=lambda: Planted.now, **clock)
    monkeypatch.setattr(session, "time", planted)
    monkeypatch.setattr(Planted, "now", 0.0)
    Planted.log.clear()


def run(
    *places: Place,
    reference: Takes = QUICK,
    measure: Benchmark | None = None,
    build: dict[str, Any] | None = None,
    takes: dict[str, Takes],
    **timing: Any,
) -> dict[str, list[Measurement]]:
    known = {
        name: {"name": name, "takes": each, "task": {}, "build": (build or {}).get(name)}
        for name, each in {"reference": reference, **takes}.items()
    }
    settings = TimingConfig(**{**EXACT, **timing})
    given = [measure or Planted(), known.pop("reference"), known]
    return time_session(*given, places, settings, CPU, lambda fraction, note: None)


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


def test_running_out_of_memory_costs_the_candidate_alone() -> None:
    for where, error in MEMORY:
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
    for role in ("baseline_samples", "baseline_again"):
        few, many = getattr(slow, role), getattr(quick, role)
        assert (len(few), len(many)) == (2, 5)
        assert few == many[:2], "of the same blocks"
    assert (len(slow.samples or []), len(quick.samples or [])) == (2, 5)


def test_without_a_reference_there_are_times_alone() -> None:
    found = run(LENGTHS[0], reference=raising(ValueError("no")), takes={"a": QUICK})
    (time,) = times(found["a"])
    assert time.samples == [0.0625] * 5
    assert (time.baseline_samples, time.baseline_again) == (None, None)


def test_a_baseline_may_be_timed_at_coordinates_of_its_own() -> None:
    class Beside(Planted):
        beside: ClassVar = {"length": 10}

    takes: Takes = lambda at: float(at["length"]) / 1024  # noqa: E731
    (time,) = run(LENGTHS[2], reference=takes, takes={"a": takes}, measure=Beside())["a"][:1]
    assert (time.samples, time.baseline_samples) == ([40 / 1024] * 5, [10 / 1024] * 5)
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


def test_a_process_that_dies_leaves_the_others_times(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = count()

    def here(work: Any, told: Any) -> tuple[Any, str | None]:
        return (None, "killed") if next(numbers) == 1 else (work(told), None)

    monkeypatch.setattr(session, "in_child", here)
    found = times(run(LENGTHS[0], takes={"a": QUICK}, processes=3)["a"])
    assert [measurement.session for measurement in found] == ["0", "2"]
    assert all(measurement.samples for measurement in found)


class Bench:
    """Calls that take as long as they say, by the planted clock."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, limit: float = math.inf, **seconds: float
    ) -> None:
        self.order: list[str] = []
        self.calls = {name: self.taking(repeat(each), name) for name, each in seconds.items()}
        monkeypatch.setattr(session, "SLOW", limit)  # what takes longer is slow

    def taking(self, seconds: Iterable[float], name: str = "") -> Call:
        """A call that takes another time each time."""
        each = iter(seconds)

        def call() -> None:
            Planted.now += next(each)
            self.order.append(name)

        return call

    def run(self, seed: int = 0, **options: Any) -> dict[str, list[float]]:
        self.order.clear()
        config = TimingConfig(**{**EXACT, **options})
        warm = {name: warm_up(call, config, CPU) for name, call in self.calls.items()}
        return run_blocks(self.calls, warm, config, CPU, seed)


def blocks(bench: Bench, warmup: int = 1) -> list[tuple[str, ...]]:
    """The order of each block, after the warm-up."""
    size = len(bench.calls)
    order = bench.order[warmup * size :]
    return [tuple(order[k : k + size]) for k in range(0, len(order), size)]


def test_samples_of_equal_number_are_from_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slows down from call to call, and still the two of a block are neighbours."""
    bench = Bench(monkeypatch)
    bench.calls = dict.fromkeys("ab", bench.taking(count()))
    samples = bench.run(blocks=10)
    pairs = zip(samples["a"], samples["b"], strict=True)
    assert [sorted(pair) for pair in pairs] == [[2 + 2 * k, 3 + 2 * k] for k in range(10)]


def test_the_order_is_random_and_comes_again_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, a=1.0, b=1.0, c=1.0)
    orders = []
    for seed in (0, 0, 1, 1):
        bench.run(seed, blocks=20)
        orders.append(blocks(bench))
        assert len(set(orders[-1])) > 3
    assert orders[0] == orders[1] != orders[2] == orders[3]


def test_a_quick_call_is_repeated_until_it_fills_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, quick=0.25, slow=8.0)
    samples = bench.run(blocks=2, sample_seconds=1.0)
    assert samples == {"quick": [0.25] * 2, "slow": [8.0] * 2}
    assert (bench.order.count("quick"), bench.order.count("slow")) == (1 + 2 * 4, 1 + 2)


@pytest.mark.parametrize(("cap", "whole"), [(0.0, 2), (5.0, 2), (7.0, 3), (1e9, 10)])
def test_the_cap_ends_it_between_blocks_but_not_before_two(
    monkeypatch: pytest.MonkeyPatch, cap: float, whole: int
) -> None:
    bench = Bench(monkeypatch, a=1.0, b=2.0)
    samples = bench.run(blocks=10, cap_seconds=cap)
    assert [len(each) for each in samples.values()] == [whole, whole]


# What is slow.


def test_a_slow_call_is_timed_in_two_blocks_and_warmed_up_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, limit=2.0, slow=3.0, quick=2.0)
    samples = bench.run(blocks=5)
    assert samples == {"slow": [3.0] * 2, "quick": [2.0] * 5}
    assert [sorted(block) for block in blocks(bench)[:2]] == [["quick", "slow"]] * 2
    assert bench.order[-3:] == ["quick"] * 3
    bench.run(blocks=2, warmup=4)
    assert bench.order[:6] == ["slow", "slow", *["quick"] * 4]
    bench.run(blocks=2, warmup=1)
    assert bench.order[:2] == ["slow", "quick"], "but no more often than is asked"


def test_a_call_that_only_begins_slowly_is_not_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may load a library, or compile: the shortest call of the warm-up decides."""
    bench = Bench(monkeypatch, limit=2.0)
    bench.calls = {"compiled": bench.taking([9.0, *[1.0] * 20])}
    assert bench.run(blocks=5, warmup=2) == {"compiled": [1.0] * 5}
    bench = Bench(monkeypatch)
    call = bench.taking([9.0, 4.0, 2.0, 5.0])
    assert warm_up(call, TimingConfig(warmup=4), CPU) == Warm(first=9.0, call=2.0)


@pytest.mark.parametrize(
    ("option", "value"), [("processes", 0), ("blocks", 1), ("warmup", 0), ("lengths", 1)]
)
def test_a_session_that_could_show_nothing_is_refused(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{option}={value}: "):
        TimingConfig(**{option: value})


def test_the_value_comes_back_and_a_report_on_the_way() -> None:
    made = {"samples": [0.1, None], "left": {"a": "why"}, "pair": (1, 2)}
    assert in_child(partial(child_jobs.give, made)) == (made, None)
    told: list[tuple[float, str]] = []
    assert in_child(child_jobs.tell, lambda *both: told.append(both)) == ("done", None)
    assert told == [(0.5, "half"), (1.0, "all\nof it")]


def test_a_child_is_fresh_and_has_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork would have what this process has: on an accelerator, an open device."""
    monkeypatch.setattr(child_jobs, "MIB", 7)
    assert in_child(child_jobs.held) == ([1 << 20, torch.get_num_threads()], None)


def test_a_failure_costs_the_child_alone_and_has_a_reason_in_one_line() -> None:
    for words, work in FAILING.items():
        made, reason = in_child(work)
        assert made is None
        assert words in (reason or "")
        assert "\n" not in (reason or "")
        assert len(reason or "") <= 200
        assert in_child(partial(child_jobs.give, 1)) == (1, None)  # the parent goes on


def test_an_allocation_that_the_machine_cannot_serve_fails_in_the_child() -> None:
    """More than there is, though less than an address can reach."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)
    made, reason = in_child(partial(child_jobs.allocate, 2 * psutil.virtual_memory().total))
    assert made is None
    assert "alloc" in (reason or "")
    assert resource.getrlimit(resource.RLIMIT_DATA) == hard, "the parent has no new limit"


def test_a_child_leaves_no_file_open() -> None:
    in_child(child_jobs.held)  # the server stays
    before = len(os.listdir("/dev/fd"))
    for work in (child_jobs.held, partial(child_jobs.fail, MemoryError()), child_jobs.die):
        in_child(work)
    assert len(os.listdir("/dev/fd")) == before


# The work of others.


@pytest.mark.parametrize(("share", "noisy"), [(NOISY - 0.01, False), (NOISY + 0.01, True)])
def test_the_work_of_others_is_a_share_of_all_cores_and_a_little_is_no_noise(
    monkeypatch: pytest.MonkeyPatch, share: float, noisy: bool
) -> None:
    before = Watch(begun=0.0, busy=100.0, own=7.0, load=0.0)  # and 10 seconds later, on 4 cores:
    monkeypatch.setattr(session, "_busy", lambda: 100.0 + 5.0 + share * 40)
    monkeypatch.setattr(session, "_own", lambda: 7.0 + 5.0)
    monkeypatch.setattr(session.time, "monotonic", lambda: 10.0)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    state = before.state(CPU)
    assert (state["others"], state["noisy"]) == (pytest.approx(share), noisy)


def test_what_we_and_our_children_do_is_our_own() -> None:
    in_child(child_jobs.held)  # starts the server
    before = session._own()
    child_jobs.spin(0.1)
    alone = session._own()
    assert alone - before == pytest.approx(0.1, abs=0.08)
    in_child(partial(child_jobs.spin, 0.2))
    assert session._own() - alone >= 0.19
