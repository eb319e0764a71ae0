"""What is done to each token on its own, against the formulas."""

from __future__ import annotations

import pytest
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import gelu, layer_norm, linear, relu

from model.family import ConfigError
from model.feedforward import FEEDFORWARD
from model.norm import NORM

BENDS = {"relu": relu, "gelu": gelu}


@pytest.mark.parametrize("eps", [1e-5, 0.3])
def test_layer_norm_standardises_each_token_then_scales_and_shifts(eps: float) -> None:
    norm = randomised(NORM.build({"name": "layer", "eps": eps}, d_model=6))
    x_BTD = random(2, 3, 6)
    by_hand = [[layer_norm(token, *affine(norm), eps) for token in seq] for seq in x_BTD.tolist()]
    assert_equals(norm(x_BTD), by_hand)


@pytest.mark.parametrize("name", sorted(BENDS))
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_a_feedforward_widens_bends_and_narrows(name: str, bias: bool) -> None:
    choice = {"name": name, "ratio": 2.5, "bias": bias}
    feedforward = randomised(FEEDFORWARD.build(choice, d_model=6))
    assert feedforward.up.out_features == 15
    x_BTD = random(2, 3, 6)
    by_hand = [
        [
            linear(
                [BENDS[name](v) for v in linear(token, *affine(feedforward.up))],
                *affine(feedforward.down),
            )
            for token in sequence
        ]
        for sequence in x_BTD.tolist()
    ]
    assert_equals(feedforward(x_BTD), by_hand)


@pytest.mark.parametrize("ratio", [0, -1, float("nan"), float("inf")])
def test_a_feedforward_of_impossible_width_is_refused(ratio: float) -> None:
    with pytest.raises(ConfigError, match="ratio"):
        FEEDFORWARD.resolve({"name": "relu", "ratio": ratio})
