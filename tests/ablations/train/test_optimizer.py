"""Optimizers and schedules against their formulas, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ablations.train.checkpoint import Checkpointer
from ablations.train.config import OPTIMIZER, SCHEDULE
from model.config import ConfigError

REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (OPTIMIZER, {"name": "adam", "lr": 0.0}, "lr=0.0: must be above 0"),
    (OPTIMIZER, {"name": "adamw", "beta2": 1.0}, "beta2=1.0: must be at least 0 and below 1"),
    (OPTIMIZER, {"name": "sgd", "weight_decay": -0.1}, "weight_decay=-0.1: must be at least 0"),
    (OPTIMIZER, {"name": "sgd", "nesterov": True, "momentum": 0.0}, "set momentum above 0"),
    *((SCHEDULE, {"name": name, "warmup": -1}, "warmup=-1: must") for name in SCHEDULE.components),
    (SCHEDULE, {"name": "noam", "warmup": 0}, "warmup=0: must be at least 1"),
    (SCHEDULE, {"name": "cosine", "floor": 1.1}, "floor=1.1: must be at least 0 and at most 1"),
]


def test_an_impossible_option_is_refused() -> None:
    for family, written, sentence in REFUSED:
        with pytest.raises(ConfigError, match=sentence):
            family.resolve(written)


few = settings(max_examples=60)

# Optimizers.

GRADIENTS = [0.5, -2.0, 0.25, 3.0, -0.125]
RATES = [0.1, 0.05, 0.2, 0.01, 0.1]


def followed(optimizer: Any, parameters: list[nn.Parameter]) -> list[float]:
    """Where the first entry of each parameter is after every gradient."""
    for gradient, rate in zip(GRADIENTS, RATES, strict=True):
        for parameter in parameters:
            parameter.grad = torch.full_like(parameter, gradient)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    return [float(parameter.detach().flatten()[0]) for parameter in parameters]


def adam(x: float, beta1: float, beta2: float, eps: float, decay: float = 0.0) -> float:
    first = second = 0.0
    for t, (g, rate) in enumerate(zip(GRADIENTS, RATES, strict=True), start=1):
        x -= rate * decay * x
        first = beta1 * first + (1 - beta1) * g
        second = beta2 * second + (1 - beta2) * g * g
        x -= rate * (first / (1 - beta1**t)) / (math.sqrt(second / (1 - beta2**t)) + eps)
    return x


def sgd(x: float, momentum: float, nesterov: bool, decay: float) -> float:
    v = 0.0
    for g, rate in zip(GRADIENTS, RATES, strict=True):
        g += decay * x
        v = momentum * v + g
        x -= rate * (g + momentum * v if nesterov else v)
    return x


def made(written: Any) -> tuple[Any, list[nn.Parameter]]:
    """The optimizer of a matrix of twos and a vector of threes."""
    parameters = [
        nn.Parameter(torch.full(shape, value, dtype=torch.float64))
        for shape, value in (((2, 3), 2.0), ((4,), 3.0))
    ]
    return OPTIMIZER.build(written, parameters=iter(parameters)), parameters


@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adamw", 0.0), ("adamw", 0.3)])
def test_adam_is_its_formula_and_in_adamw_matrices_alone_decay(name: str, decay: float) -> None:
    own = {"weight_decay": decay} if name == "adamw" else {}
    found = followed(*made({"name": name, "beta1": 0.8, "beta2": 0.95, "eps": 0.01, **own}))
    expected = [adam(2.0, 0.8, 0.95, 0.01, decay), adam(3.0, 0.8, 0.95, 0.01)]
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize(
    ("momentum", "nesterov"), [(0.0, False), (0.9, False), (0.9, True)], ids=str
)
def test_sgd_is_its_formula_and_matrices_alone_decay(
    momentum: float, nesterov: bool, decay: float
) -> None:
    own = {"momentum": momentum, "nesterov": nesterov}
    found = followed(*made({"name": "sgd", **own, "weight_decay": decay}))
    expected = [sgd(2.0, momentum, nesterov, decay), sgd(3.0, momentum, nesterov, 0.0)]
    assert found == pytest.approx(expected, rel=1e-12)


# Schedules, as closed formulas of step s, warm-up w and number of steps n. A peak at step 0 is
# where a decay without warm-up starts from.

Formula = Callable[[int, int, int], float]
AFTER: dict[str, tuple[dict[str, Any], Formula]] = {
    "constant": ({}, lambda s, w, n: 1.0),
    "linear": ({}, lambda s, w, n: 1 - (s - w) / (n + 1 - w)),
    "cosine": ({}, lambda s, w, n: math.cos(math.pi / 2 * (s - w) / (n + 1 - w)) ** 2),
    "cosine to a floor": (
        {"name": "cosine", "floor": 0.2},
        lambda s, w, n: 0.6 + 0.4 * math.cos(math.pi * (s - w) / (n + 1 - w)),
    ),
}
lengths = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def shares(steps: int, **written: Any) -> list[float]:
    schedule = SCHEDULE.build(written, steps=steps)
    return [schedule.share(step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("name", AFTER)
@few
@given(lengths)
def test_a_schedule_is_its_formula_at_every_step(name: str, length: tuple[int, int]) -> None:
    steps, warmup = length
    options, after = AFTER[name]
    expected = [s / warmup if s <= warmup else after(s, warmup, steps) for s in range(1, steps + 1)]
    written = {"name": name, **options}
    assert shares(steps, warmup=warmup, **written) == pytest.approx(expected, abs=1e-12)


@few
@given(st.integers(1, 80), st.integers(1, 80), st.integers(1, 1024))
def test_noam_at_its_peak_rate_is_the_papers_rate(steps: int, warmup: int, d_model: int) -> None:
    rate = (d_model * warmup) ** -0.5
    paper = [d_model**-0.5 * min(s**-0.5, s * warmup**-1.5) for s in range(1, steps + 1)]
    ours = [rate * share for share in shares(steps, name="noam", warmup=warmup)]
    assert ours == pytest.approx(paper, rel=1e-12)


OPTIMIZERS: dict[str, dict[str, Any]] = {
    "adam": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9},  # Vaswani et al. 2017
    "adamw": {"lr": 1e-3, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "weight_decay": 0.01},
    "sgd": {"lr": 0.1, "momentum": 0.9, "nesterov": False, "weight_decay": 0.0},
}
SCHEDULES: dict[str, dict[str, Any]] = {
    "constant": {"warmup": 0},
    "linear": {"warmup": 0},
    "cosine": {"warmup": 0, "floor": 0.0},
    "noam": {"warmup": 4000},
}


def test_a_part_that_is_named_bare_has_these_options() -> None:
    for family, table in [(OPTIMIZER, OPTIMIZERS), (SCHEDULE, SCHEDULES)]:
        bare = {name: family.resolve({"name": name}) for name in family.components}
        assert bare == {name: {"name": name, **options} for name, options in table.items()}


def test_a_killed_training_loses_a_minute_at_most(tmp_path: Path) -> None:
    assert Checkpointer(tmp_path / "kept", {}).seconds <= 60
