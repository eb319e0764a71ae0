"""Times that can be compared: complete blocks, paired samples, and memory that costs a child."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ablations.measure.timing import Call, TimingConfig, probe_memory, synchronise, time_blocks
from model.config import ConfigError

CPU = torch.device("cpu")
MIB = 1 << 20
PLAIN = {"warmup": 1, "sample_seconds": 0.0, "cap_seconds": 1e9}


class Bench:
    """Calls that take as long as they say, by a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **seconds: float) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.calls = {name: self._call(name, each) for name, each in seconds.items()}
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr("ablations.measure.timing.time", clock)

    def _call(self, name: str, seconds: float) -> Call:
        def call() -> None:
            self.now += seconds
            self.order.append(name)

        return call

    def run(self, seed: int = 0, **options: Any) -> dict[str, list[float]]:
        self.order.clear()
        config = TimingConfig(**{**PLAIN, **options})
        return time_blocks(self.calls, config, CPU, seed)


def blocks(bench: Bench, warmup: int = 1) -> list[tuple[str, ...]]:
    """The order of each block, after the warm-up."""
    size = len(bench.calls)
    order = bench.order[warmup * size :]
    return [tuple(order[k : k + size]) for k in range(0, len(order), size)]


def test_every_block_times_every_candidate_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, a=1.0, b=2.0, c=3.0)
    samples = bench.run(blocks=12)
    assert samples == {"a": [1.0] * 12, "b": [2.0] * 12, "c": [3.0] * 12}
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks(bench))
    assert len(blocks(bench)) == 12


def test_samples_of_equal_number_are_from_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine slows down from call to call, and still the two of a block are neighbours."""
    bench = Bench(monkeypatch)
    ages: list[int] = []

    def aging() -> None:
        ages.append(len(ages))
        bench.now += ages[-1]

    bench.calls = {"a": aging, "b": aging}
    samples = bench.run(blocks=10)
    pairs = zip(samples["a"], samples["b"], strict=True)
    assert [sorted(pair) for pair in pairs] == [[2 + 2 * k, 3 + 2 * k] for k in range(10)]


def test_the_order_is_random_and_comes_again_with_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, a=1.0, b=1.0, c=1.0)
    orders = {}
    for seed in (0, 1):
        bench.run(seed, blocks=20)
        orders[seed] = blocks(bench)
        bench.run(seed, blocks=20)
        assert blocks(bench) == orders[seed]
    assert orders[0] != orders[1]
    for seed in (0, 1):
        assert len(set(orders[seed])) > 3


def test_each_candidate_is_warmed_up_before_the_first_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch, a=1.0, b=1.0)
    bench.run(blocks=2, warmup=3)
    assert bench.order[:6] == ["a"] * 3 + ["b"] * 3
    assert len(bench.order) == 6 + 4


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
    samples = bench.run(processes=1, blocks=10, cap_seconds=cap)
    assert [len(each) for each in samples.values()] == [whole, whole]


def test_progress_is_told_block_by_block(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, a=1.0)
    told: list[float] = []
    time_blocks(
        bench.calls, TimingConfig(blocks=4), CPU, report=lambda fraction, _: told.append(fraction)
    )
    assert told == [0.25, 0.5, 0.75, 1.0]


def test_nothing_to_time_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Bench(monkeypatch).run() == {}


def test_a_planted_slow_call_is_slower() -> None:
    x = torch.randn(64, 64)

    def products(count: int) -> Call:
        def call() -> None:
            for _ in range(count):
                x @ x

        return call

    config = TimingConfig(blocks=8, warmup=2, sample_seconds=0.001)
    samples = time_blocks({"slow": products(50), "fast": products(1)}, config, CPU)
    ratios = [slow / fast for slow, fast in zip(samples["slow"], samples["fast"], strict=True)]
    assert median(ratios) > 5


def test_the_cpu_has_always_done_what_it_was_told() -> None:
    synchronise(CPU)


@pytest.mark.parametrize(("option", "value"), [("blocks", 1), ("warmup", 0)])
def test_a_session_that_could_show_nothing_is_refused(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{option}={value}: "):
        TimingConfig(**{option: value})


# Memory.


def probed(prepare: Callable[[], Call]) -> tuple[int | None, str | None]:
    return probe_memory(allocating(1), prepare, torch.device("cpu"))


def allocating(size: int) -> Callable[[], Call]:
    def prepare() -> Call:
        def call() -> None:
            torch.ones(size, dtype=torch.uint8)

        return call

    return prepare


def test_memory_grows_with_what_a_call_allocates() -> None:
    small, none = probed(allocating(1))
    large, nothing = probed(allocating(64 * MIB))
    assert (none, nothing) == (None, None)
    assert small is not None
    assert large is not None
    assert 0 <= small < 32 * MIB
    assert 60 * MIB <= large - small < 128 * MIB


def test_what_a_call_keeps_counts_with_what_it_frees() -> None:
    def prepare() -> Call:
        kept = torch.ones(64 * MIB, dtype=torch.uint8)
        return lambda: print(kept[0]) if kept.sum() < 0 else None

    extra, _ = probed(prepare)
    assert extra is not None
    assert extra >= 60 * MIB


def raising(error: BaseException) -> Callable[[], Call]:
    def prepare() -> Call:
        raise error

    return prepare


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (raising(MemoryError("no room")), "no room"),
        (raising(MemoryError()), ""),
        (raising(RuntimeError("DefaultCPUAllocator: can't allocate memory\nmore")), "allocate"),
        (raising(RuntimeError()), ""),
        (allocating(1 << 62), "memory"),
        (lambda: die, "killed"),
    ],
    ids=["MemoryError", "wordless", "allocator", "bare", "real", "SIGKILL"],
)
def test_running_out_of_memory_costs_the_child_alone_and_has_a_reason(
    prepare: Callable[[], Call], words: str
) -> None:
    extra, reason = probed(prepare)
    assert extra is None
    assert reason
    assert words in reason
    assert "\n" not in reason
    assert probed(allocating(1))[1] is None  # the parent goes on


def test_any_other_mistake_is_told_in_its_own_words() -> None:
    wrong = ValueError("learned positions end at max_len=8, asked for 16")
    assert "learned positions end at max_len=8" in (probed(raising(wrong))[1] or "")


def test_a_probe_leaves_no_file_open() -> None:
    before = len(os.listdir("/dev/fd"))
    probed(allocating(1))
    probed(raising(MemoryError()))
    assert len(os.listdir("/dev/fd")) == before
