"""Multi-head attention against the equation, one number at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import Matrix, attention, linear
from torch import Tensor

from model.attention import PATH
from model.batch import positions
from model.mixer import MIXER, Context
from model.mixer.attention import Attention
from model.position import POSITION
from model.scale import SCALE

D_MODEL, N_HEADS, D_HEAD = 8, 2, 3  # heads that do not fill the width
PATHS = pytest.mark.parametrize("path", sorted(PATH.parts))


def build(path: str, cross: bool, **options: Any) -> Attention:
    given = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_head": D_HEAD, "cross": cross}
    parts = {
        "position": POSITION.build("none"),
        "scale": SCALE.build("sqrt_d_head", d_head=D_HEAD),
        "path": PATH.build(path),
    }
    return randomised(MIXER.build({"name": "attention", **options}, **given, **parts))


def by_hand(
    mixer: Attention, asking: Tensor, asked: Tensor, lengths: list[int], causal: bool
) -> list[Matrix]:
    """For each sequence: project, attend, project back. `lengths` are those of what is asked."""
    width = N_HEADS * D_HEAD
    weight, bias = affine(mixer.project)
    biases = bias or [0.0] * len(weight)
    if mixer.cross:
        more, more_bias = affine(mixer.project_memory)
        weight, biases = weight + more, biases + (more_bias or [0.0] * len(more))
    rows = [slice(0, width), slice(width, 2 * width), slice(2 * width, 3 * width)]
    answers = []
    for x, memory, length in zip(asking.tolist(), asked.tolist(), lengths, strict=True):
        q, k, v = (
            [linear(token, weight[part], biases[part]) for token in tokens]
            for part, tokens in zip(rows, (x, memory, memory), strict=True)
        )
        mixed = attention(q, k, v, N_HEADS, lambda t, s, n=length: s < n and (s <= t or not causal))
        answers.append([linear(token, *affine(mixer.out)) for token in mixed])
    return answers


@PATHS
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "both-ways"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_self_attention_is_softmax_of_scaled_scores_times_values(
    path: str, causal: bool, bias: bool
) -> None:
    mixer = build(path, cross=False, bias=bias)
    x_BTD = random(2, 5, D_MODEL)
    y_BTD, state = mixer(x_BTD, Context(positions(5, x_BTD), causal=causal))
    assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, [5, 5], causal))
    assert state is None


@PATHS
def test_self_attention_never_weighs_padding(path: str) -> None:
    mixer = build(path, cross=False)
    x_BTD, lengths = random(3, 5, D_MODEL), [5, 2, 1]
    y_BTD, _ = mixer(x_BTD, Context(positions(5, x_BTD), lengths=torch.tensor(lengths)))
    assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, lengths, causal=False))


@PATHS
@pytest.mark.parametrize("lengths", [None, [4, 1, 3]], ids=["whole", "padded"])
def test_cross_attention_asks_a_memory(path: str, lengths: list[int] | None) -> None:
    mixer = build(path, cross=True)
    x_BTD, memory_BSD = random(3, 5, D_MODEL), random(3, 4, D_MODEL, seed=2)
    context = Context(
        positions(5, x_BTD),
        causal=True,
        memory=memory_BSD,
        memory_lengths=None if lengths is None else torch.tensor(lengths),
    )
    y_BTD, _ = mixer(x_BTD, context)
    assert_equals(y_BTD, by_hand(mixer, x_BTD, memory_BSD, lengths or [4] * 3, causal=False))


@PATHS
def test_a_bias_is_added_to_the_scaled_scores(path: str) -> None:
    q, k, v = (random(1, 1, 4, D_HEAD, seed=seed) for seed in range(3))
    bias_HTS = random(1, 4, 4, seed=3)
    y, _ = PATH.build(path)(q, k, v, 0.5, causal=True, bias_BHTS=bias_HTS)
    scores = 0.5 * q @ k.transpose(-2, -1) + bias_HTS
    for t in range(4):
        weights = scores[0, 0, t, : t + 1].softmax(dim=0)
        torch.testing.assert_close(y[0, 0, t], weights @ v[0, 0, : t + 1])


def test_the_explicit_path_shows_its_weights() -> None:
    mixer = build("explicit", cross=False)
    x_BTD, shown = random(2, 5, D_MODEL), []
    mixer(x_BTD, Context(positions(5, x_BTD), causal=True, weights=shown))
    (weights_BHTS,) = shown
    assert weights_BHTS.shape == (2, N_HEADS, 5, 5)
    torch.testing.assert_close(weights_BHTS.sum(-1), torch.ones(2, N_HEADS, 5).double())
    torch.testing.assert_close(weights_BHTS, weights_BHTS.tril(), rtol=0, atol=0)


@PATHS
def test_weights_are_dropped_in_training_alone(path: str) -> None:
    mixer = build(path, cross=False, dropout=0.5)
    x_BTD = random(2, 5, D_MODEL)
    context = Context(positions(5, x_BTD))
    still, again = mixer(x_BTD, context)[0], mixer(x_BTD, context)[0]
    torch.testing.assert_close(still, again, rtol=0, atol=0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        dropped = mixer.train()(x_BTD, context)[0]
    assert (dropped - still).abs().max() > 0.01


def test_the_scale_is_one_over_the_root_of_the_head_width() -> None:
    for d_head in (1, 4, 9):
        q = random(1, 1, 2, d_head)
        scaled, factor = SCALE.build("sqrt_d_head", d_head=d_head)(q)
        torch.testing.assert_close(scaled, q, rtol=0, atol=0)
        assert factor == pytest.approx(1 / d_head**0.5, rel=1e-15)
