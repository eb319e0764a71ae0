"""What a part does if nobody says otherwise: another default would give a bare name a meaning that
no formula beside it was tried with."""

from __future__ import annotations

from typing import Any

from model.build import FAMILIES

FREE = {"join": "add", "every_layer": False, "width": None}
DEFAULTS: dict[str, dict[str, dict[str, Any]]] = {
    "position": {
        "index": {"join": "add", "every_layer": False, "scale": True},
        "binary": {"join": "add", "every_layer": False},
        "sinusoidal": {**FREE, "base": 10_000.0},
        "learned": {**FREE, "std": None},
        "rotary": {"theta": 10_000.0, "fraction": 1.0, "pairing": "halves"},
        "shaw": {"clip": 16, "shared": False},
        "t5": {"n_buckets": 32, "max_distance": 128, "shared": True},
    },
    "norm": {
        "layer": {"eps": 1e-5, "affine": True, "bias": True},
        "rms": {"eps": 1e-6, "affine": True},
    },
    "mixer": {
        "attention": {"bias": True, "n_kv_heads": None},
        "window": {"bias": True, "n_kv_heads": None, "reach": 16},
        "convolution": {"kernel": 3, "dilated": False, "bias": True},
        "rnn": {"form": "kernel"},
        "gru": {"form": "kernel"},
        "lstm": {"form": "kernel", "forget_bias": 0.0},
    },
    "scale": {"learned": {"start": None}},
    "feedforward": {
        **{name: {"ratio": 4.0, "bias": True} for name in ("linear", "relu", "swiglu", "geglu")},
        "gelu": {"ratio": 4.0, "bias": True, "approximate": "none"},
    },
    "head": {
        "tokens": {"bias": True, "transform": False, "scale": 1.0},
        "classes": {"pool": "first", "transform": False},
    },
    "initial": {"normal": {"std": 0.02}},
    "cell": {
        "rnn": {"form": "kernel"},
        "gru": {"form": "kernel"},
        "lstm": {"form": "kernel", "forget_bias": 0.0},
    },
}


def test_a_bare_name_means_what_is_written_here() -> None:
    for family in FAMILIES:
        if family.word != "model":
            known = DEFAULTS.get(family.word, {})
            for name in family.parts:
                assert family.resolve(name) == {"name": name, **known.get(name, {})}, family.word
