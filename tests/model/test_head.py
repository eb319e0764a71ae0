"""What an encoder's or a decoder's vectors become: kinds of models, heads and pooling."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import Vector, add, gelu, layer_norm, linear

from model.batch import Batch
from model.build import build
from model.config import ConfigError
from model.heads import HEAD
from model.residual import NORM

LENGTHS = [4, 1, 3]
SOURCE = torch.tensor([[3, 7, 4, 5], [6, 0, 0, 0], [5, 4, 3, 0]])


def head(name: str, **options: Any) -> Any:
    given = {"d_model": 6, "target_size": 5, "norm": NORM.build("layer", d_model=6)}
    return randomised(HEAD.build({"name": name, **options}, **given))


def pooled(pool: str, vectors: list[Vector]) -> Vector:
    if pool == "mean":
        total = [0.0] * len(vectors[0])
        for vector in vectors:
            total = add(total, vector)
        return [v / len(vectors) for v in total]
    return vectors[0] if pool == "first" else vectors[-1]


@pytest.mark.parametrize("pool", ["first", "last", "mean"])
@pytest.mark.parametrize(("transform", "padded"), [(False, False), (True, True), (False, True)])
def test_classes_are_read_off_the_real_tokens(pool: str, transform: bool, padded: bool) -> None:
    part, x_BTD = head("classes", pool=pool, transform=transform), random(3, 4, 6)
    lengths = LENGTHS if padded else [4, 4, 4]

    def by_hand(vectors: list[Vector]) -> Vector:
        x = pooled(pool, vectors)
        if transform:
            x = [math.tanh(v) for v in linear(x, *affine(part.dense))]
        return linear(x, *affine(part.classify))

    expected = [by_hand(x[:n]) for x, n in zip(x_BTD.tolist(), lengths, strict=True)]
    assert_equals(part(x_BTD, torch.tensor(lengths) if padded else None), expected)


@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_tokens_are_scored_at_every_position(transform: bool, bias: bool, scale: float) -> None:
    part = head("tokens", transform=transform, bias=bias, scale=scale)
    x_BTD = random(2, 3, 6)

    def by_hand(x: Vector) -> Vector:
        if transform:
            wide = [gelu(v) for v in linear(x, *affine(part.dense))]
            x = layer_norm(wide, *affine(part.norm))
        return linear([scale * v for v in x], *affine(part.project))

    expected = [[by_hand(token) for token in rows] for rows in x_BTD.tolist()]
    assert_equals(part(x_BTD, None), expected)
    assert len(list(part.parameters())) == 1 + bias + 4 * transform


# Kinds of models.

FREE = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "n_heads": 2}


def test_an_encoder_reads_both_ways_unless_it_is_causal() -> None:
    for causal in (False, True):
        written = {**FREE, "kind": "encoder", "head": "bare", "causal_encoder": causal}
        model = randomised(build(written, 8, 9, seed=None))
        changed = SOURCE.clone()
        changed[:, -1] = 6
        before, after = (model(Batch(s, source=s)) for s in (SOURCE, changed))
        assert torch.equal(before[:, :3], after[:, :3]) == causal


# Which tables are one.


@pytest.mark.parametrize("tied", ["free", "output", "all"])
def test_tables_are_one_as_far_as_written(tied: str) -> None:
    model: Any = build({**FREE, "tied": tied}, 9, 9, seed=0)
    source = model.encoder.embedding.tokens.weight
    target = model.decoder.embedding.tokens.weight
    assert (model.head.project.weight is target) == (tied != "free")
    assert (source is target) == (tied == "all")
    assert model.head.project.bias.shape == (9,)


def test_tables_that_cannot_be_one_are_refused() -> None:
    for written, sizes, words in [
        ({"tied": "all"}, (11, 9), "tied=all: source and target have 11 and 9 tokens"),
        ({"tied": "output", "kind": "encoder"}, (11, 9), "tied=output: needs a head over the same"),
        (
            {"tied": "output", "kind": "encoder", "head": "bare"},
            (9, 9),
            "tied=output: needs a head",
        ),
        ({"tied": "all", "kind": "encoder", "head": "classes"}, (9, 9), "tied=all: needs a head"),
        (
            {"tied": "output", "position": {"name": "learned", "join": "concat"}},
            (9, 9),
            "tied=output: .* positions not concatenated",
        ),
    ]:
        with pytest.raises(ConfigError, match=words):
            build({**FREE, **written}, *sizes, seed=0)
