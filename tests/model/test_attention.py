"""Multi-head attention against the equation, one number at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from slow_formulas import (
    Matrix,
    Vector,
    affine,
    assert_equals,
    attention,
    dot,
    linear,
    random,
    randomised,
)
from torch import Tensor

from model.attention import MASK, PATH, SCALE, SIMILARITY
from model.batch import positions
from model.build import build as whole
from model.mixers import MIXER, Context
from model.mixers.attention import Attention, Scoring
from model.positions import POSITION

D_MODEL, N_HEADS, D_HEAD = 8, 2, 3  # heads that do not fill the width
PATHS = pytest.mark.parametrize("path", ["explicit", "row", "loop", "fused"])


def build(
    path: str,
    cross: bool = False,
    n_heads: int = N_HEADS,
    scale: str = "sqrt_d_head",
    similarity: str = "dot",
    mask: str = "infinity",
    **options: Any,
) -> Attention:
    sizes = {"d_model": D_MODEL, "n_heads": n_heads, "d_head": D_HEAD}
    scoring = Scoring(
        POSITION.build("none"),
        SCALE.build(scale, **sizes),
        SIMILARITY.build(similarity),
        PATH.build(path, mask=MASK.build(mask)),
    )
    given = {**sizes, "scoring": scoring, "cross": cross}
    return randomised(MIXER.build({"name": "attention", **options}, **given))


def by_hand(
    mixer: Attention,
    asking: Tensor,
    asked: Tensor,
    lengths: list[int],
    causal: bool,
    unit: bool = False,
    **formula: Any,
) -> list[Matrix]:
    """For each sequence: project, attend, project back. `lengths` are those of what is asked."""
    n_heads = mixer.n_kv_heads * mixer.group
    wide, narrow = n_heads * D_HEAD, mixer.n_kv_heads * D_HEAD
    weight, bias = affine(mixer.project)
    biases = bias or [0.0] * len(weight)
    if mixer.cross:
        more, more_bias = affine(mixer.project_memory)
        weight, biases = weight + more, biases + (more_bias or [0.0] * len(more))
    rows = [slice(0, wide), slice(wide, wide + narrow), slice(wide + narrow, wide + 2 * narrow)]
    answers = []
    for x, memory, length in zip(asking.tolist(), asked.tolist(), lengths, strict=True):
        q, k, v = (
            [linear(token, weight[part], biases[part]) for token in tokens]
            for part, tokens in zip(rows, (x, memory, memory), strict=True)
        )
        if unit:
            q, k = [unit_heads(token) for token in q], [unit_heads(token) for token in k]
        mixed = attention(
            q, k, v, n_heads, lambda t, s, n=length: s < n and (s <= t or not causal),
            n_kv_heads=mixer.n_kv_heads, **formula,
        )  # fmt: skip
        answers.append([linear(token, *affine(mixer.out)) for token in mixed])
    return answers


def unit_heads(token: Vector) -> Vector:
    heads = [token[at : at + D_HEAD] for at in range(0, len(token), D_HEAD)]
    return [v / math.sqrt(dot(head, head)) for head in heads for v in head]


@PATHS
def test_attention_is_softmax_of_scaled_scores_times_values(path: str) -> None:
    """Neighbouring heads of queries share a head of keys and values; padding has no weight."""
    x_BTD, memory_BSD, lengths = random(3, 5, D_MODEL), random(3, 4, D_MODEL, seed=2), [5, 2, 1]
    for n_kv_heads, bias in [(1, True), (2, False), (4, True)]:
        mixer = build(path, n_heads=4, n_kv_heads=n_kv_heads, bias=bias)
        assert mixer.project.out_features == (4 + 2 * n_kv_heads) * D_HEAD
        past = Context(positions(5, x_BTD), causal=True)
        assert_equals(mixer(x_BTD, past)[0], by_hand(mixer, x_BTD, x_BTD, [5] * 3, causal=True))
        real = Context(positions(5, x_BTD), lengths=torch.tensor(lengths))
        assert_equals(mixer(x_BTD, real)[0], by_hand(mixer, x_BTD, x_BTD, lengths, causal=False))
        for memory in ([4] * 3, [4, 1, 3]):
            mixer = build(path, cross=True, n_heads=4, n_kv_heads=n_kv_heads, bias=bias)
            read = Context(
                positions(5, x_BTD),
                causal=True,
                memory=memory_BSD,
                memory_lengths=torch.tensor(memory),
            )
            expected = by_hand(mixer, x_BTD, memory_BSD, memory, causal=False)
            assert_equals(mixer(x_BTD, read)[0], expected)


@PATHS
def test_the_cosine_counts_directions_alone(path: str) -> None:
    for cross in [False, True]:
        mixer = build(path, cross=cross, similarity="cosine", scale="none")
        x_BTD, memory_BSD = random(2, 5, D_MODEL), random(2, 4, D_MODEL, seed=2)
        asked = memory_BSD if cross else x_BTD
        context = Context(positions(5, x_BTD), causal=True, memory=memory_BSD)
        expected = by_hand(
            mixer, x_BTD, asked, [asked.shape[1]] * 2, causal=not cross, unit=True, scale=1.0
        )
        assert_equals(mixer(x_BTD, context)[0], expected)


SCALES = {
    "sqrt_d_head": 1 / math.sqrt(D_HEAD),
    "sqrt_d_model": 1 / math.sqrt(D_MODEL),
    "linear": 1 / D_HEAD,
    "none": 1.0,
    "learned": [2.0, 0.3],  # each head's own
}


@pytest.mark.parametrize("name", sorted(SCALE.components))
def test_scores_are_multiplied_as_the_name_of_the_scale_says(name: str) -> None:
    for path in ["explicit", "fused"]:
        mixer, x_BTD, factor = build(path, scale=name), random(2, 5, D_MODEL), SCALES[name]
        if isinstance(factor, list):
            mixer.scale.load_state_dict({"log": torch.tensor(factor, dtype=torch.float64).log()})
        y_BTD, _ = mixer(x_BTD, Context(positions(5, x_BTD)))
        assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, [5, 5], causal=False, scale=factor))


def test_a_learned_scale_starts_at_one_over_the_root_or_where_it_is_told() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}
    for scale, start in [("learned", 0.5), ({"name": "learned", "start": 3.0}, 3.0)]:
        model: Any = whole({**choice, "scale": scale}, None, 9, seed=0)
        log_H = model.decoder.blocks[0].mixer.scale.log
        assert log_H.exp().tolist() == pytest.approx([start] * 2)


@pytest.mark.parametrize("path", ["explicit", "row", "loop"])
def test_the_zero_mask_gives_what_it_should_hide_a_score_of_zero(path: str) -> None:
    mixer = build(path, mask="zero")
    x_BTD = random(2, 5, D_MODEL)
    y_BTD, _ = mixer(x_BTD, Context(positions(5, x_BTD), causal=True))
    assert_equals(y_BTD, by_hand(mixer, x_BTD, x_BTD, [5, 5], causal=True, hidden=0.0))


@PATHS
def test_a_bias_is_added_to_the_scaled_scores_of_what_is_neither_late_nor_padding(
    path: str,
) -> None:
    q, k, v = (random(1, 1, 4, D_HEAD, seed=seed) for seed in range(3))
    bias_HTS = random(1, 4, 4, seed=3)
    along = PATH.build(path, mask=MASK.build("infinity"))
    keep = torch.tensor([True, True, False, True])
    y, _ = along(q, k, v, 0.5, causal=True, keep_BHTS=keep[None, None, None], bias_BHTS=bias_HTS)
    scores = 0.5 * q @ k.transpose(-2, -1) + bias_HTS
    for t in range(4):
        seen = [s for s in range(t + 1) if keep[s]]
        weights = scores[0, 0, t, seen].softmax(dim=0)
        torch.testing.assert_close(y[0, 0, t], weights @ v[0, 0, seen])


def test_a_vector_without_a_direction_scores_zero_and_has_a_finite_gradient() -> None:
    cosine: Any = SIMILARITY.build("cosine")
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        q, k = torch.zeros(1, 1, 2, 8, dtype=dtype), random(1, 1, 3, 8).to(dtype)
        compared_q, compared_k = cosine.compared(q.requires_grad_(), k)
        scores = compared_q @ compared_k.transpose(-2, -1)
        assert scores.tolist() == [[[[0.0] * 3] * 2]]
        (scores.square().sum() + scores.sum()).backward()
        assert q.grad is not None
        assert q.grad.isfinite().all()
