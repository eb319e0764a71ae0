"""What is done to each token on its own, against the formulas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import Vector, gelu, gelu_tanh, layer_norm, linear, relu, rms_norm, silu

from model.build import build
from model.feedforward import FEEDFORWARD
from model.norms import NORM

TWO_LAYERS: dict[str, tuple[dict[str, Any], Callable[[float], float]]] = {
    "linear": ({"name": "linear"}, lambda x: x),
    "relu": ({"name": "relu"}, relu),
    "gelu": ({"name": "gelu"}, gelu),
    "gelu by tanh": ({"name": "gelu", "approximate": "tanh"}, gelu_tanh),
}
GATED = {"swiglu": silu, "geglu": gelu}
BIAS = pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])


def each(x_BTD: torch.Tensor, formula: Callable[[Vector], Vector]) -> list[list[Vector]]:
    return [[formula(token) for token in sequence] for sequence in x_BTD.tolist()]


def test_layer_norm_standardises_each_token_then_scales_and_shifts() -> None:
    for eps in [1e-5, 0.3]:
        for options in [{}, {"bias": False}, {"affine": False}]:
            norm = randomised(NORM.build({"name": "layer", "eps": eps, **options}, d_model=6))
            assert (norm.weight is None) == ("affine" in options)
            assert (norm.bias is None) == bool(options)
            gain = [1.0] * 6 if norm.weight is None else norm.weight.tolist()
            bias = [0.0] * 6 if norm.bias is None else norm.bias.tolist()
            x_BTD = random(2, 3, 6)
            formula = partial(layer_norm, gain=gain, bias=bias, eps=eps)
            assert_equals(norm(x_BTD), each(x_BTD, formula))


def test_rms_norm_divides_by_the_root_of_the_mean_square_then_scales() -> None:
    for eps in [1e-6, 0.3]:
        for has_gain in [True, False]:
            norm = randomised(
                NORM.build({"name": "rms", "eps": eps, "affine": has_gain}, d_model=6)
            )
            assert len(list(norm.parameters())) == has_gain
            gain = norm.weight.tolist() if has_gain else [1.0] * 6
            x_BTD = random(2, 3, 6) + 1  # a mean that it must leave where it is
            assert_equals(norm(x_BTD), each(x_BTD, partial(rms_norm, gain=gain, eps=eps)))


def test_no_norm_is_the_stream_as_it_comes() -> None:
    x_BTD = random(2, 3, 6)
    assert NORM.build("none", d_model=6)(x_BTD) is x_BTD


@pytest.mark.parametrize("name", TWO_LAYERS)
@BIAS
def test_a_feedforward_widens_bends_and_narrows(name: str, bias: bool) -> None:
    choice, bend = TWO_LAYERS[name]
    part = randomised(made({**choice, "ratio": 2.5, "bias": bias}))
    assert part.up.out_features == 15
    assert (part.up.bias is None) == (part.down.bias is None) == (not bias)

    def by_hand(token: Vector) -> Vector:
        return linear([bend(v) for v in linear(token, *affine(part.up))], *affine(part.down))

    x_BTD = random(2, 3, 6)
    assert_equals(part(x_BTD), each(x_BTD, by_hand))


@pytest.mark.parametrize("name", GATED)
@BIAS
def test_a_gated_feedforward_multiplies_what_it_widens(name: str, bias: bool) -> None:
    part = randomised(made({"name": name, "ratio": 2.5, "bias": bias}))
    assert part.into.out_features == 2 * 15

    def by_hand(token: Vector) -> Vector:
        both = linear(token, *affine(part.into))
        wide = [GATED[name](g) * u for g, u in zip(both[:15], both[15:], strict=True)]
        return linear(wide, *affine(part.down))

    x_BTD = random(2, 3, 6)
    assert_equals(part(x_BTD), each(x_BTD, by_hand))


def made(choice: Any, dropout: float = 0.0) -> Any:
    return FEEDFORWARD.build(choice, d_model=6, feedforward_dropout=dropout)


@pytest.mark.parametrize("name", sorted(set(FEEDFORWARD.components) - {"none"}))
def test_dropout_acts_between_the_layers_and_in_training_alone(name: str) -> None:
    """Nearly everything inside is dropped, so what is left is the bias of the last layer."""
    part, x_BTD = randomised(made(name, dropout=0.99)), random(2, 3, 6)
    still = part(x_BTD)
    assert_equals(still, randomised(made(name))(x_BTD).tolist())
    part.train()
    part.dropout.p = 1.0
    torch.testing.assert_close(part(x_BTD), part.down.bias.expand(2, 3, 6))
    assert (still - part.down.bias).abs().max() > 0.1


def test_without_a_feedforward_the_block_leaves_the_sublayer_and_its_norm_out() -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1}
    for written, sublayers in (("none", 1), ("relu", 2)):
        block = build({**choice, "feedforward": written}, None, 9, seed=0).decoder.blocks[0]
        assert (block.feedforward is None) == (written == "none")
        assert len(block.residual.norms) == sublayers
