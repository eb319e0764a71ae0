"""An LSTM's forget gate may start open: its biases then sum to what was asked for."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from model.build import build
from model.config import ConfigError
from model.recurrent.cell import LSTM

D = 6


def recurrent(cell: Any, **changes: Any) -> nn.Module:
    return build({"name": "recurrent", "d_model": D, "cell": cell, **changes}, 9, 9, seed=0)


def mixing(mixer: Any, **changes: Any) -> nn.Module:
    return build({"name": "transformer", "d_model": 8, "mixer": mixer, **changes}, 9, 9, seed=0)


MODELS = {"recurrent": recurrent, "mixer": mixing, "encoder": lambda m: mixing(m, kind="encoder")}


def layers(model: nn.Module) -> list[LSTM]:
    return [module for module in model.modules() if isinstance(module, LSTM)]


@pytest.mark.parametrize("make", MODELS.values(), ids=list(MODELS))
@pytest.mark.parametrize("bias", [1.0, 0.5, -2.0])
def test_the_forget_gates_biases_sum_to_what_was_asked_for_and_no_other_moves(
    make: Any, bias: float
) -> None:
    plain, opened = make("lstm"), make({"name": "lstm", "forget_bias": bias})
    assert layers(opened)
    for layer in layers(opened):
        size = layer.hidden_size
        total = (layer.bias_ih_l0 + layer.bias_hh_l0).tolist()
        assert total == [0.0] * size + [bias] * size + [0.0] * (2 * size)
    for (name, one), (_, other) in zip(
        plain.named_parameters(), opened.named_parameters(), strict=True
    ):
        assert torch.equal(one, other) == ("bias_ih_l0" not in name)


@pytest.mark.parametrize("form", ["kernel", "steps"])
def test_without_weights_a_cell_keeps_the_stated_share_of_itself(form: str) -> None:
    """σ(forget_bias): half at 0, 73 % at 1."""
    for bias in (0.0, 1.0):
        written = {"name": "lstm", "form": form, "forget_bias": bias}
        (layer,) = layers(recurrent(written, kind="decoder"))
        with torch.no_grad():
            layer.weight_ih_l0.zero_()
            layer.weight_hh_l0.zero_()
            _, (_, cell) = layer.run(torch.zeros(1, 1, D), (torch.zeros(1, D), torch.ones(1, D)))
        share = 1 / (1 + math.exp(-bias))
        torch.testing.assert_close(cell, torch.full((1, D), share))


def test_left_out_it_is_zero() -> None:
    for layer in layers(recurrent("lstm")):
        assert not layer.bias_ih_l0.any()
        assert not layer.bias_hh_l0.any()


@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_with_equal_weights_the_numbers_are_torchs(bias: float) -> None:
    (layer,) = layers(recurrent({"name": "lstm", "forget_bias": bias}, kind="decoder"))
    reference = nn.LSTM(D, D, batch_first=True)
    reference.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(0))
    outputs, _ = layer.run(x, layer.start(x[:, 0]))
    torch.testing.assert_close(outputs, reference(x)[0])


@pytest.mark.parametrize("name", ["gru", "rnn"])
@pytest.mark.parametrize(("make", "place"), [(recurrent, "cell"), (mixing, "mixer")])
def test_what_has_no_forget_gate_refuses_it_in_one_line(make: Any, place: str, name: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make({"name": name, "forget_bias": 1.0})
    assert refused.value.problems == [
        f"model.{place}.forget_bias: no such option. Choose from: form."
    ]
