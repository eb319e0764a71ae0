"""An LSTM's forget gate may start open: its biases then sum to what was asked for."""

from __future__ import annotations

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


def test_the_forget_gates_biases_sum_to_what_was_asked_for_and_no_other_moves() -> None:
    for make in MODELS.values():
        for bias in [1.0, 0.5, -2.0]:
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


def test_what_has_no_forget_gate_refuses_it_in_one_line() -> None:
    for name in ["gru", "rnn"]:
        for make, place in [(recurrent, "cell"), (mixing, "mixer")]:
            with pytest.raises(ConfigError) as refused:
                make({"name": name, "forget_bias": 1.0})
            assert refused.value.problems == [
                f"model.{place}.forget_bias: no such option. Choose from: form."
            ]
