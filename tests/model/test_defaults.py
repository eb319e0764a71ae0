"""What a part does if nobody says otherwise, shown by what it does.

A default decides what a variant's bare name means: each is held against a formula of its own, so
that another default makes a test fail.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import random, randomised, watched
from slow_formulas import gelu
from torch import Tensor

from model.batch import Batch
from model.build import build
from model.feedforward import FEEDFORWARD
from model.initialise import INITIAL
from model.norm import NORM
from model.positions import POSITION

D_HEAD = 8
FAR = torch.tensor([0, 1, 2, 7, 100, 5000])


def made(**changes: Any) -> Any:
    """Three layers in double precision, every weight random."""
    sizes = {"d_model": 8, "n_heads": 2, "depth": 3, "max_len": 128, "position": "none"}
    return randomised(build({"name": "transformer", **sizes, **changes}, 9, 9, seed=None))


def assert_close(actual: Tensor, expected: Any) -> None:
    truth = torch.tensor(expected, dtype=torch.float64)
    torch.testing.assert_close(actual.detach().double(), truth, rtol=1e-9, atol=1e-9)


def turned(vector: list[float], position: int) -> list[float]:
    """Dimension i and the one half a head further on turn by position / 10000^(2i / d_head)."""
    half = len(vector) // 2
    first, second = [], []
    for i in range(half):
        angle = position / 10_000 ** (2 * i / len(vector))
        a, b = vector[i], vector[i + half]
        first.append(a * math.cos(angle) - b * math.sin(angle))
        second.append(b * math.cos(angle) + a * math.sin(angle))
    return first + second


def test_rotary_turns_halves_of_the_whole_head_with_a_base_of_ten_thousand() -> None:
    q = random(1, 1, len(FAR), D_HEAD)
    rotated, _ = POSITION.build("rotary", d_head=D_HEAD).rotate(q, q, FAR)
    expected = [turned(q[0, 0, row].tolist(), at) for row, at in enumerate(FAR.tolist())]
    assert_close(rotated[0, 0], expected)


def test_t5_has_32_buckets_up_to_128() -> None:
    position = POSITION.resolve("t5")
    assert (position["n_buckets"], position["max_distance"]) == (32, 128)


def test_shaws_distances_end_at_16() -> None:
    position = randomised(POSITION.build("shaw", d_head=D_HEAD))
    q = random(1, 1, 1, D_HEAD)
    scores = position.score(q, torch.tensor([50]), torch.arange(100))[0, 0, 0]
    rows = [min(max(key - 50, -16), 16) + 16 for key in range(100)]
    assert len(position.table.weight) == 33
    assert_close(scores, (position.table.weight[rows] @ q[0, 0, 0]).tolist())


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_window_reaches_sixteen(kind: str) -> None:
    """Causal: itself and fifteen before it; otherwise itself and sixteen to each side."""
    model = made(kind=kind, mixer="window", path="explicit")
    stack = model.decoder or model.encoder
    shown = watched(stack.blocks[0].mixer)
    tokens = torch.ones(1, 60, dtype=torch.long)
    model(Batch(tokens, tokens, source=tokens))
    seen = (shown[0][0, 0] > 0).tolist()
    before, after = (15, 0) if kind == "decoder" else (16, 16)
    assert seen == [[-before <= s - t <= after for s in range(60)] for t in range(60)]


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_convolution_has_three_taps_side_by_side_in_every_layer(kind: str) -> None:
    """Causal: two before and the token itself; otherwise one to each side."""
    model = made(kind=kind, mixer="convolution", residual="none", norm="none", feedforward="none")
    stack = model.decoder or model.encoder
    tokens = torch.ones(1, 20, dtype=torch.long)
    given: list[Tensor] = []
    stack.embedding.register_forward_hook(
        lambda _, __, x: given.append(x.detach().requires_grad_()) or given[-1]
    )
    logits = model(Batch(tokens, tokens, source=tokens))
    (grad,) = torch.autograd.grad(logits[0, 10].sum(), given[0])
    read = [at for at in range(20) if grad[0, at].any()]
    before, after = (6, 0) if kind == "decoder" else (3, 3)  # three layers, one step apart each
    assert read == list(range(10 - before, 10 + after + 1))


@pytest.mark.parametrize("name", ["layer", "rms"])
def test_a_norm_has_a_gain_and_only_the_layer_norm_a_bias(name: str) -> None:
    names = {key for key, _ in NORM.build(name, d_model=4).named_parameters()}
    assert names == ({"weight", "bias"} if name == "layer" else {"weight"})


def test_a_feedforward_is_four_times_as_wide_with_biases() -> None:
    for name in ["linear", "relu", "gelu", "swiglu", "geglu"]:
        part = FEEDFORWARD.build(name, d_model=6, feedforward_dropout=0.0)
        assert part.down.weight.shape == (6, 24)
        assert part.down.bias is not None
        assert (part.up if hasattr(part, "up") else part.into).bias is not None


def test_gelu_is_the_exact_one() -> None:
    part = FEEDFORWARD.build("gelu", d_model=6, feedforward_dropout=0.0)
    x = [-3.0, -1.0, -0.1, 0.5, 2.0]
    assert_close(part.activation(torch.tensor(x, dtype=torch.float64)), [gelu(v) for v in x])


def test_normal_first_values_deviate_by_two_hundredths() -> None:
    values = INITIAL.build("normal").weight((300, 300), torch.Generator().manual_seed(0))
    assert values.std().item() == pytest.approx(0.02, rel=0.01)


def test_attention_has_biases_and_keys_for_every_head() -> None:
    mixer = made().decoder.blocks[0].mixer
    assert mixer.project.weight.shape == (24, 8)
    assert mixer.project.bias is not None
    assert mixer.out.bias is not None
