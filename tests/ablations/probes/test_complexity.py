"""What a layer costs on paper: work by hand, steps that wait for one another, paths by search.

n: positions, d: d_model, k: kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from small_models import TEXT, transformer
from torch import Tensor

from ablations.benchmarks.throughput import mixer_of, untrained
from ablations.probes.complexity import longest_path, operations
from model.build import build
from model.flops import count
from model.mixers import Context, Mixer

REACH = 8
LAYERS: dict[str, dict[str, Any]] = {
    "attention": {"name": "attention"},
    "window": {"name": "window", "reach": REACH},
    "convolution": {"name": "convolution", "kernel": 3, "dilated": True},
    "rnn": {"name": "rnn", "form": "steps"},
    "gru": {"name": "gru", "form": "steps"},
    "lstm": {"name": "lstm", "form": "steps"},
}


def config(name: str, d: int = 16, **changes: Any) -> dict[str, Any]:
    return transformer({**LAYERS[name], **changes}, d_model=d, max_len=2048)


# Work: a multiply and an add for each entry of a product.

BY_HAND: dict[str, Callable[[int, int], tuple[int, int]]] = {
    # scores and mixture: n² products of d numbers each; queries, keys, values, answer: d × d
    "attention": lambda n, d: (2 * 2 * n * n * d, 4 * 2 * n * d * d),
    # a block of `reach` queries meets its own keys and the reach − 1 before them
    "window": lambda n, d: (2 * 2 * n * (2 * REACH - 1) * d, 4 * 2 * n * d * d),
    "convolution": lambda n, d: (2 * n * 3 * d * d, 0),
    "rnn": lambda n, d: (2 * n * (d * d + d * d), 0),  # W x and U h
    "gru": lambda n, d: (3 * 2 * n * (d * d + d * d), 0),
    "lstm": lambda n, d: (4 * 2 * n * (d * d + d * d), 0),
}


def work(name: str, n: int, d: int) -> tuple[int, int]:
    with torch.device("meta"):
        model = build(config(name, d)["model"], None, TEXT.target_size, 0)
    flops = count(model, None, n).flops
    return flops["mixing"], flops["projections"]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize(("n", "d"), [(64, 16), (128, 48)])
def test_the_work_of_a_layer_is_what_it_is_by_hand(name: str, n: int, d: int) -> None:
    assert work(name, n, d) == BY_HAND[name](n, d)


# Steps that wait for one another.


class Chain(Mixer):
    """Two additions that wait for one another and one that does not; a view moves nothing."""

    def forward(self, x_BTD: Tensor, context: Context, state: Any = None) -> tuple[Tensor, None]:
        left = (x_BTD + 1) + 1
        right = x_BTD + 1
        return left.transpose(1, 2).transpose(1, 2) * right, None


def test_steps_of_a_chain_are_what_they_are_by_hand() -> None:
    found = operations(Chain(), width=4, length=6)
    assert found.depth == 3
    assert found.kernels == ()


def steps(name: str, n: int, **changes: Any) -> int:
    return operations(mixer_of(untrained(config(name, **changes), TEXT)), 16, n).depth


@pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
def test_the_steps_of_a_loop_grow_with_the_length(name: str) -> None:
    """Each position adds as many, and at least a product, a sum and a bend."""
    few, some, many = (steps(name, n) for n in (32, 64, 128))
    assert many - some == 2 * (some - few)
    assert (some - few) % 32 == 0
    assert some - few >= 3 * 32
    assert many / some == pytest.approx(2, abs=0.03)


# Paths, beside a search that knows no Jacobian.


@pytest.mark.parametrize("n", [2, 9, 16, 30])
def test_attention_reaches_everything_in_one_layer_and_a_loop_in_n_steps(n: int) -> None:
    assert longest_path(config("attention"), TEXT, n) == 1
    assert longest_path(config("rnn"), TEXT, n) == n
    assert longest_path(config("lstm", form="kernel"), TEXT, n) == n


@pytest.mark.parametrize(("kernel", "n"), [(2, 8), (2, 9), (3, 9), (3, 10), (5, 28)])
def test_a_dilated_convolution_needs_the_logarithm(kernel: int, n: int) -> None:
    logarithm = next(power for power in range(n) if kernel**power >= n)
    found = longest_path(config("convolution", kernel=kernel), TEXT, n)
    assert found == logarithm


@pytest.mark.parametrize(("reach", "n"), [(2, 8), (5, 9), (5, 16), (8, 22)])
def test_a_window_reaches_all_but_itself_further_with_each_layer(reach: int, n: int) -> None:
    found = longest_path(config("window", reach=reach), TEXT, n)
    assert found == math.ceil((n - 1) / (reach - 1))
