"""Times that can be compared: complete blocks, paired samples, fewer of what is slow."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ablations.benchmarks.session import Call, TimingConfig, Warm, run_blocks, warm_up
from model.config import ConfigError

CPU = torch.device("cpu")
PLAIN = {"warmup": 1, "sample_seconds": 0.0, "cap_seconds": 1e9}


class Bench:
    """Calls that take as long as they say, by a clock of their own."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, limit: float = math.inf, **seconds: float
    ) -> None:
        self.now = 0.0
        self.order: list[str] = []
        self.calls = {name: self._call(name, each) for name, each in seconds.items()}
        clock = SimpleNamespace(perf_counter=lambda: self.now)
        monkeypatch.setattr("ablations.benchmarks.session.time", clock)
        monkeypatch.setattr("ablations.benchmarks.session.SLOW", limit)  # what takes longer is slow

    def _call(self, name: str, seconds: float) -> Call:
        def call() -> None:
            self.now += seconds
            self.order.append(name)

        return call

    def taking(self, seconds: Iterable[float]) -> Call:
        """A call that takes another time each time."""
        each = iter(seconds)

        def call() -> None:
            self.now += next(each)

        return call

    def run(self, seed: int = 0, **options: Any) -> dict[str, list[float]]:
        self.order.clear()
        config = TimingConfig(**{**PLAIN, **options})
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
    orders = {}
    for seed in (0, 1):
        bench.run(seed, blocks=20)
        orders[seed] = blocks(bench)
        bench.run(seed, blocks=20)
        assert blocks(bench) == orders[seed]
    assert orders[0] != orders[1]
    for seed in (0, 1):
        assert len(set(orders[seed])) > 3


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
    """It may load a library, or compile."""
    bench = Bench(monkeypatch, limit=2.0)
    bench.calls = {"compiled": bench.taking([9.0, *[1.0] * 20])}
    assert bench.run(blocks=5, warmup=2) == {"compiled": [1.0] * 5}


def test_the_first_call_stands_apart_and_the_shortest_tells_how_long_one_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(monkeypatch)
    call = bench.taking([9.0, 4.0, 2.0, 5.0])
    assert warm_up(call, TimingConfig(warmup=4), CPU) == Warm(first=9.0, call=2.0)


@pytest.mark.parametrize(
    ("option", "value"), [("processes", 0), ("blocks", 1), ("warmup", 0), ("lengths", 1)]
)
def test_a_session_that_could_show_nothing_is_refused(option: str, value: int) -> None:
    with pytest.raises(ConfigError, match=f"{option}={value}: "):
        TimingConfig(**{option: value})
