"""Attention by hand: scores, scales, masks and the paths that compute it."""

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
from model.build import build
from model.mixers import MIXER, Context
from model.mixers.attention import Scoring
from model.positions import POSITION

D_MODEL, N_HEADS, D_HEAD = 8, 4, 3  # heads that do not fill the width
PATHS = pytest.mark.parametrize("path", ["explicit", "row", "loop", "fused"])


def attending(
    path: str,
    cross: bool = False,
    name: str = "attention",
    scale: str = "sqrt_d_head",
    similarity: str = "dot",
    mask: str = "infinity",
    **options: Any,
) -> Any:
    """The mixer, in double precision, with no weight of zero or one."""
    d_head = D_MODEL // N_HEADS if name == "basic" else D_HEAD  # without projections they fill it
    sizes = {"d_model": D_MODEL, "n_heads": N_HEADS, "d_head": d_head}
    scoring = Scoring(
        POSITION.build("none"),
        SCALE.build(scale, **sizes),
        SIMILARITY.build(similarity),
        PATH.build(path, mask=MASK.build(mask)),
    )
    given = {**sizes, "scoring": scoring, "cross": cross}
    return randomised(MIXER.build({"name": name, **options}, **given))


def projected(mixer: Any, asking: Matrix, asked: Matrix) -> list[Matrix]:
    """Queries of the one sequence, keys and values of the other."""
    if not hasattr(mixer, "project"):
        return [asking, asked, asked]
    weight, bias = affine(mixer.project)
    biases = bias or [0.0] * len(weight)
    if mixer.cross:
        more, more_bias = affine(mixer.project_memory)
        weight, biases = weight + more, biases + (more_bias or [0.0] * len(more))
    wide, narrow = N_HEADS * D_HEAD, mixer.n_kv_heads * D_HEAD
    rows = [slice(0, wide), slice(wide, wide + narrow), slice(wide + narrow, wide + 2 * narrow)]
    return [
        [linear(token, weight[each], biases[each]) for token in tokens]
        for each, tokens in zip(rows, (asking, asked, asked), strict=True)
    ]


def by_hand(
    mixer: Any,
    asking: Tensor,
    asked: Tensor,
    lengths: list[int],
    causal: bool = False,
    unit: bool = False,
    **formula: Any,
) -> list[Matrix]:
    """For each sequence: project, attend, project back. `lengths` are those of what is asked."""
    answers = []
    for x, memory, length in zip(asking.tolist(), asked.tolist(), lengths, strict=True):
        q, k, v = projected(mixer, x, memory)
        if unit:
            q, k = [unit_heads(token) for token in q], [unit_heads(token) for token in k]
        mixed = attention(
            q, k, v, N_HEADS, lambda t, s, n=length: s < n and (s <= t or not causal),
            n_kv_heads=mixer.n_kv_heads, **formula,
        )  # fmt: skip
        has_output = hasattr(mixer, "out")
        answers.append(
            [linear(token, *affine(mixer.out)) if has_output else token for token in mixed]
        )
    return answers


def unit_heads(token: Vector) -> Vector:
    heads = [token[at : at + D_HEAD] for at in range(0, len(token), D_HEAD)]
    return [v / math.sqrt(dot(head, head)) for head in heads for v in head]


SCALES: dict[str, Any] = {
    "sqrt_d_head": 1 / math.sqrt(D_HEAD),
    "sqrt_d_model": 1 / math.sqrt(D_MODEL),
    "linear": 1 / D_HEAD,
    "none": 1.0,
    "learned": [2.0, 0.3, 1.0, 0.7],  # each head's own
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {  # what is built, and its formula
    **{f"{n} heads of keys": ({"n_kv_heads": n, "bias": n != 2}, {}) for n in (1, 2, 4)},
    **{f"scale {name}": ({"scale": name}, {"scale": factor}) for name, factor in SCALES.items()},
    "cosine": ({"similarity": "cosine", "scale": "none"}, {"unit": True, "scale": 1.0}),
    "basic": ({"name": "basic"}, {}),
    "basic unscaled": ({"name": "basic", "scale": "none"}, {"scale": 1.0}),
}


@PATHS
@pytest.mark.parametrize("case", CASES)
def test_attention_is_softmax_of_scaled_scores_times_values(path: str, case: str) -> None:
    """Neighbouring heads of queries share a head of keys and values; padding has no weight."""
    options, formula = CASES[case]
    x_BTD, memory_BSD, lengths = random(3, 5, D_MODEL), random(3, 4, D_MODEL, seed=2), [4, 2, 1]
    real, at = torch.tensor(lengths), positions(5, x_BTD)
    for asked, cross, context, expected in [
        (x_BTD, False, Context(at, causal=True), {"lengths": [5] * 3, "causal": True}),
        (x_BTD, False, Context(at, lengths=real), {"lengths": lengths}),
        (memory_BSD, True, Context(at, causal=True, memory=memory_BSD), {"lengths": [4] * 3}),
        (memory_BSD, True, Context(at, memory=memory_BSD, memory_lengths=real),
         {"lengths": lengths}),
    ]:  # fmt: skip
        mixer = attending(path, cross, **options)
        if isinstance(mixer.scale, SCALE.component("learned")):
            factors = torch.tensor(SCALES["learned"], dtype=torch.float64)
            mixer.scale.load_state_dict({"log": factors.log()})
        y_BTD, _ = mixer(x_BTD, context)
        assert_equals(y_BTD, by_hand(mixer, x_BTD, asked, **expected, **formula))


def test_basic_attention_has_no_weights_and_every_scale_is_tried() -> None:
    assert list(attending("explicit", name="basic").parameters()) == []
    assert SCALES.keys() == SCALE.components.keys()


def test_a_learned_scale_starts_at_one_over_the_root_or_at_its_start() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}
    for scale, start in [("learned", 0.5), ({"name": "learned", "start": 3.0}, 3.0)]:
        model: Any = build({**choice, "scale": scale}, None, 9, seed=0)
        log_H = model.decoder.blocks[0].mixer.scale.log
        assert log_H.exp().tolist() == pytest.approx([start] * 2)


@pytest.mark.parametrize("path", ["explicit", "row", "loop"])
def test_the_zero_mask_gives_what_it_should_hide_a_score_of_zero(path: str) -> None:
    mixer = attending(path, mask="zero")
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
