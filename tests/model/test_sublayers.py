"""What is done to each token on its own, against the formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest
import torch
from slow_formulas import (
    Vector,
    add,
    affine,
    assert_equals,
    gelu,
    gelu_tanh,
    layer_norm,
    linear,
    random,
    randomised,
    relu,
    rms_norm,
    silu,
)
from torch import Tensor

from model.batch import Batch
from model.build import build
from model.config import ConfigError
from model.feedforward import FEEDFORWARD
from model.heads import HEAD
from model.residual import NORM, RESIDUAL

ACTIVATIONS: dict[str, tuple[dict[str, Any], Callable[[float], float]]] = {
    "linear": ({"name": "linear"}, lambda x: x),
    "relu": ({"name": "relu"}, relu),
    "gelu": ({"name": "gelu"}, gelu),
    "gelu by tanh": ({"name": "gelu", "approximate": "tanh"}, gelu_tanh),
    "swiglu": ({"name": "swiglu"}, silu),
    "geglu": ({"name": "geglu"}, gelu),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_feedforward_is_its_formula_and_drops_its_hidden_layer_in_training(name: str) -> None:
    choice, bend = ACTIVATIONS[name]
    for bias in (True, False):
        written = {**choice, "ratio": 2.5, "bias": bias}
        layer = randomised(FEEDFORWARD.build(written, d_model=6, feedforward_dropout=0.99))
        is_gated = hasattr(layer, "into")
        assert (layer.into if is_gated else layer.up).out_features == 15 * (1 + is_gated)

        def by_hand(token: Vector, layer: Any = layer, is_gated: bool = is_gated) -> Vector:
            wide = linear(token, *affine(layer.into if is_gated else layer.up))
            hidden = [bend(v) for v in wide[:15]]
            if is_gated:
                hidden = [g * u for g, u in zip(hidden, wide[15:], strict=True)]
            return linear(hidden, *affine(layer.down))

        x_BTD = random(2, 3, 6)
        assert_equals(layer(x_BTD), each(x_BTD, by_hand))
        layer.train().dropout.p = 1.0
        left = layer.down.bias if bias else torch.zeros(6, dtype=torch.float64)
        torch.testing.assert_close(layer(x_BTD), left.expand(2, 3, 6))


UNTIED: list[tuple[dict[str, Any], tuple[int, int], str]] = [
    ({"tied": "all"}, (11, 9), "tied=all: source and target have 11 and 9 tokens"),
    ({"tied": "output", "kind": "encoder"}, (11, 9), "tied=output: needs a head over the same"),
    ({"tied": "output", "kind": "encoder", "head": "bare"}, (9, 9), "tied=output: needs a head"),
    ({"tied": "all", "kind": "encoder", "head": "classes"}, (9, 9), "tied=all: needs a head"),
    ({"tied": "output", "position": {"name": "learned", "join": "concat"}}, (9, 9),
     "tied=output: .* positions not concatenated"),
]  # fmt: skip


def test_tables_are_one_as_far_as_written_or_the_reason_is_given() -> None:
    for tied in ["free", "output", "all"]:
        model: Any = build({**FREE, "tied": tied}, 9, 9, seed=0)
        source, target = (stack.embedding.tokens.weight for stack in (model.encoder, model.decoder))
        assert (model.head.project.weight is target) == (tied != "free")
        assert (source is target) == (tied == "all")
        assert model.head.project.bias.shape == (9,)
    for written, sizes, words in UNTIED:
        with pytest.raises(ConfigError, match=words):
            build({**FREE, **written}, *sizes, seed=0)


def each(x_BTD: torch.Tensor, formula: Callable[[Vector], Vector]) -> list[list[Vector]]:
    return [[formula(token) for token in sequence] for sequence in x_BTD.tolist()]


OF_LAYER: list[dict[str, Any]] = [{}, {"bias": False}, {"affine": False}]
OF_RMS: list[dict[str, Any]] = [{}, {"affine": False}]
NORMS = [
    *({"name": "layer", "eps": eps, **options} for eps in (1e-5, 0.3) for options in OF_LAYER),
    *({"name": "rms", "eps": eps, **options} for eps in (1e-6, 0.3) for options in OF_RMS),
]


def test_a_norm_is_its_formula() -> None:
    x_BTD = random(2, 3, 6) + 1  # rms leaves the mean where it is
    for written in NORMS:
        norm = randomised(NORM.build(written, d_model=6))
        has_gain, has_bias = written.get("affine", True), len(written) == 2
        gain = norm.weight.tolist() if has_gain else [1.0] * 6
        formula = partial(rms_norm, gain=gain, eps=written["eps"])
        if written["name"] == "layer":
            bias = norm.bias.tolist() if has_bias else [0.0] * 6
            formula = partial(layer_norm, gain=gain, bias=bias, eps=written["eps"])
        assert len(list(norm.parameters())) == has_gain + (has_bias and written["name"] == "layer")
        assert_equals(norm(x_BTD), each(x_BTD, formula))
    assert NORM.build("none", d_model=6)(x_BTD) is x_BTD


def test_without_a_feedforward_the_block_leaves_the_sublayer_and_its_norm_out() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}
    for written, sublayers in (("none", 1), ("relu", 2)):
        block = build({**choice, "feedforward": written}, None, 9, seed=0).decoder.blocks[0]
        assert (block.feedforward is None) == (written == "none")
        assert len(block.residual.norms) == sublayers


WIDTH, SUBLAYERS = 6, 3
N_NORMS = {"pre": 3, "post": 3, "sandwich": 6, "parallel": 1, "none": 3}
Step = Callable[[Vector], Vector]


def made_residual(name: str, dropout: float = 0.0) -> Any:
    def make_norm() -> torch.nn.Module:
        return NORM.build("layer", d_model=WIDTH)

    return randomised(
        RESIDUAL.build(name, make_norm=make_norm, sublayers=SUBLAYERS, dropout=dropout)
    )


def sublayer(number: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (x * (number + 1)).sin() + 0.3 * x.roll(1, -1)


def sublayer_by_hand(number: int) -> Step:
    def f(x: Vector) -> Vector:
        return [math.sin(v * (number + 1)) + 0.3 * x[i - 1] for i, v in enumerate(x)]

    return f


def by_hand(name: str, x: Vector, norms: list[Step], steps: list[Step]) -> Vector:
    if name == "parallel":
        normed, summed = norms[0](x), x
        for f in steps:
            summed = add(summed, f(normed))
        return summed
    for i, f in enumerate(steps):
        match name:
            case "pre":
                x = add(x, f(norms[i](x)))
            case "post":
                x = norms[i](add(x, f(x)))
            case "sandwich":
                x = add(x, norms[2 * i + 1](f(norms[2 * i](x))))
            case "none":
                x = f(norms[i](x))
    return x


@pytest.mark.parametrize("name", sorted(RESIDUAL.components))
def test_a_residual_is_its_equation(name: str) -> None:
    residual = made_residual(name)
    assert len(residual.norms) == N_NORMS[name]
    norms = [lambda x, n=norm: layer_norm(x, *affine(n)) for norm in residual.norms]
    x_BTD = random(2, 3, WIDTH)
    y_BTD = residual(x_BTD, [sublayer(i) for i in range(SUBLAYERS)])
    steps = [sublayer_by_hand(i) for i in range(SUBLAYERS)]
    expected = [[by_hand(name, x, norms, steps) for x in rows] for rows in x_BTD.tolist()]
    assert_equals(y_BTD, expected)


def test_a_stack_ends_in_a_norm_as_the_residual_has_it_or_as_written() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1, "norm": "rms"}
    for name, written in product(sorted(RESIDUAL.components), [None, True, False]):
        model = build({**choice, "residual": name, "final_norm": written}, None, 9, seed=0)
        expected = name != "post" if written is None else written
        assert isinstance(model.decoder.norm, torch.nn.RMSNorm if expected else torch.nn.Identity)


@pytest.mark.parametrize("name", sorted(RESIDUAL.components))
def test_dropout_takes_what_a_sublayer_adds_and_never_the_stream(name: str) -> None:
    x_BTD, residual = random(2, 3, WIDTH), made_residual(name, dropout=1.0).train()
    expected = torch.zeros_like(x_BTD) if name == "none" else x_BTD
    for norm in residual.norms if name == "post" else []:
        expected = norm(expected)
    left = residual(x_BTD, [sublayer(i) for i in range(SUBLAYERS)])
    torch.testing.assert_close(left, expected)


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
    layer, x_BTD = head("classes", pool=pool, transform=transform), random(3, 4, 6)
    lengths = LENGTHS if padded else [4, 4, 4]

    def by_hand(vectors: list[Vector]) -> Vector:
        x = pooled(pool, vectors)
        if transform:
            x = [math.tanh(v) for v in linear(x, *affine(layer.dense))]
        return linear(x, *affine(layer.classify))

    expected = [by_hand(x[:n]) for x, n in zip(x_BTD.tolist(), lengths, strict=True)]
    assert_equals(layer(x_BTD, torch.tensor(lengths) if padded else None), expected)


@pytest.mark.parametrize("transform", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_tokens_are_scored_at_every_position(transform: bool, bias: bool, scale: float) -> None:
    layer = head("tokens", transform=transform, bias=bias, scale=scale)
    x_BTD = random(2, 3, 6)

    def by_hand(x: Vector) -> Vector:
        if transform:
            wide = [gelu(v) for v in linear(x, *affine(layer.dense))]
            x = layer_norm(wide, *affine(layer.norm))
        return linear([scale * v for v in x], *affine(layer.project))

    expected = [[by_hand(token) for token in rows] for rows in x_BTD.tolist()]
    assert_equals(layer(x_BTD, None), expected)
    assert len(list(layer.parameters())) == 1 + bias + 4 * transform


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
