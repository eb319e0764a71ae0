"""A mixer's options hold for the attention that reads the memory beside it, or have no place."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import nn

from model.build import build
from model.family import NoOptions
from model.mixer import MIXER

# What of a mixer's options changes the cross-attention beside it; all others are about its own
# sequence: how far it sees, how it gets from one position to the next.
REACHES = {
    "attention": {"bias", "n_kv_heads"},
    "basic": set(),
    "convolution": {"bias"},
    "gru": set(),
    "lstm": set(),
    "mingru": set(),
    "none": set(),
    "rnn": set(),
    "window": {"bias", "n_kv_heads"},
}
OTHER = {
    "bias": False, "n_kv_heads": 2, "reach": 3, "kernel": 5, "dilated": True, "form": "steps",
    "forget_bias": 1.0,
}  # fmt: skip


def cross(mixer: Any) -> nn.Module:
    written = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "depth": 2}
    with torch.device("meta"):
        return build({**written, "mixer": mixer}, 9, 9, seed=None).decoder.blocks[1].cross


def shapes(module: nn.Module) -> dict[str, Any]:
    return {name: weight.shape for name, weight in module.named_parameters()}


def options(name: str) -> list[str]:
    return [field.name for field in fields(getattr(MIXER.part(name), "Config", NoOptions))]


CASES = [(name, option) for name in REACHES for option in options(name)]


def test_an_option_reaches_cross_attention_where_that_has_the_same() -> None:
    for name, option in CASES:
        plain, changed = cross(name), cross({"name": name, option: OTHER[option]})
        assert (shapes(changed) != shapes(plain)) == (option in REACHES[name])
