"""The hot pieces one by one, in the form that pytest-benchmark saves and compares.

    ./run_all.sh bench tests/benchmarks/test_pieces.py --benchmark-autosave
    ./run_all.sh bench tests/benchmarks/test_pieces.py --benchmark-compare

The second, at another commit, shows both side by side. A time of another day means little: a
difference is worth a look where it is the same in several runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from ablations.measure.decode import Decode
from ablations.measure.layer import LayerTime
from ablations.measure.throughput import Throughput
from ablations.plan.wanted import make_plan
from ablations.store.identity import freeze
from ablations.tasks.cache import load_task
from ablations.tasks.task import Budget

CPU = torch.device("cpu")
LAYERS = (
    "attention",
    "attention, explicit",
    "window",
    "convolution",
    "rnn",
    "gru",
    "lstm",
    "mingru",
)


@pytest.fixture(scope="module")
def wants() -> dict[str, Any]:
    plan = make_plan(["length", "rnn-vs-attention"], "quick", {}, None)
    return {want.title.rpartition(" seed")[0]: want for want in plan.wanted.values()}


def prepared(timing: Any, want: Any, **at: Any) -> Callable[[], None]:
    task = load_task(freeze(want.config["task"]))
    call: Callable[[], None] = timing.prepare(want.config, task, CPU, at)
    return call


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_forward_and_backward(benchmark: Any, wants: dict[str, Any], name: str) -> None:
    want = wants[f"length:{name}"]
    benchmark(prepared(LayerTime(), want, length=256, batch=4, **{"pass": "training"}))


@pytest.mark.parametrize("name", ["transformer", "lstm", "gru"])
def test_a_training_step(benchmark: Any, wants: dict[str, Any], name: str) -> None:
    want = wants[f"rnn-vs-attention:{name}"]
    benchmark(prepared(Throughput(), want, length=64, batch=16, **{"pass": "training"}))


@pytest.mark.parametrize("name", ["transformer", "lstm"])
def test_the_next_token(benchmark: Any, wants: dict[str, Any], name: str) -> None:
    want = wants[f"rnn-vs-attention:{name}"]
    benchmark(prepared(Decode(), want, position=128, batch=1, cache="kept"))


def test_ten_steps_of_batches(benchmark: Any) -> None:
    (want, *_) = make_plan(["norm"], "quick", {}, None).wanted.values()
    task = load_task(want.frozen["task"])

    def draw() -> None:
        steps = task.steps(0, Budget(2048, 4))
        for _ in range(10):
            next(steps)

    benchmark(draw)
