"""What scores are multiplied by, in numbers and in a lecture's worked example."""

from __future__ import annotations

import math

import pytest
import torch
from given_weights import assert_equals, random, randomised
from slow_formulas import attention
from torch import Tensor

from model.attention import MASK, PATH
from model.build import build
from model.scale import SCALE

D_MODEL, N_HEADS = 24, 3
FIXED = {
    "sqrt_d_head": lambda d_head: 1 / math.sqrt(d_head),
    "sqrt_d_model": lambda d_head: 1 / math.sqrt(D_MODEL),
    "linear": lambda d_head: 1 / d_head,
    "none": lambda d_head: 1.0,
}


def attended(name: str, q: Tensor, k: Tensor, v: Tensor, d_head: int) -> tuple[Tensor, object]:
    scale = SCALE.build(name, d_model=D_MODEL, n_heads=q.shape[1], d_head=d_head).double()
    if name == "learned":
        randomised(scale)
    scaled, factor = scale.scaled(q)
    y, _ = PATH.build("explicit", mask=MASK.build("infinity"))(scaled, k, v, factor)
    return y[0].transpose(0, 1).flatten(1), scale


@pytest.mark.parametrize("name", sorted(SCALE.parts))
def test_scores_are_multiplied_as_the_name_says(name: str) -> None:
    for d_head in [1, 4, 9]:
        q, k, v = (random(1, N_HEADS, 5, d_head, seed=seed) for seed in range(3))
        y_TD, scale = attended(name, q, k, v, d_head)
        by_head = [math.exp(s) for s in scale.log.tolist()] if name == "learned" else None
        heads_beside = [x[0].transpose(0, 1).flatten(1).tolist() for x in (q, k, v)]
        factor = by_head or FIXED[name](d_head)
        assert_equals(y_TD, attention(*heads_beside, N_HEADS, lambda t, s: True, factor))


def test_a_learned_scale_starts_at_one_over_the_root_and_is_each_heads_own() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1, "scale": "learned"}
    scale = build(choice, None, 9, seed=0).decoder.blocks[0].mixer.scale
    assert scale.log.exp().tolist() == pytest.approx([0.5, 0.5], rel=1e-6)
    q = torch.ones(1, 2, 3, 4)
    with torch.no_grad():
        scale.log.copy_(torch.tensor([math.log(2), math.log(3)]))
    scaled, factor = scale.scaled(q)
    assert factor == 1.0
    torch.testing.assert_close(scaled[0, :, 0, 0], torch.tensor([2.0, 3.0]))
