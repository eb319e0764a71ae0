"""A model that cannot be built is refused before it is built, with the field that is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest

from model.build import build, resolve
from model.config import ConfigError, validate
from model.strict_yaml import parse_yaml

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "model.n_heads=7": {"n_heads": 7, "d_model": 64},
    "model.max_len=0": {"max_len": 0},
    "model.kind: ": {"kind": "both"},
    "model.position: no position 'rotray'": {"position": "rotray"},
    "model.residual.alpha: ": {"residual": {"name": "pre", "alpha": 2}},
    "model.mixer.dropout: no such option": {"mixer": {"name": "attention", "dropout": 0.5}},
    "model.attention_dropout=1.5": {"attention_dropout": 1.5},
    "model.feedforward_dropout=1.0": {"feedforward_dropout": 1},
    "model.tied: ": {"tied": "both"},
    "model.head.pool: ": {"head": {"name": "classes", "pool": "max"}},
    "model.feedforward.approximate: ": {"feedforward": {"name": "gelu", "approximate": "erf"}},
    "model.norm.eps=0.0": {"norm": {"name": "rms", "eps": 0}},
    "model.scale: no scale 'sqrt'": {"scale": "sqrt"},
    "model.feedforward.ratio=0.0": {"feedforward": {"name": "gelu", "ratio": 0}},
    "model.init.std=-1.0": {"init": {"name": "normal", "std": -1}},
    "model.mixer.reach=0": {"mixer": {"name": "window", "reach": 0}},
    "model.mixer.kernel=0": {"mixer": {"name": "convolution", "kernel": 0}},
    "model.mixer.form: ": {"mixer": {"name": "gru", "form": "loop"}},
    "model.mixer.forget_bias: no such option": {"mixer": {"name": "gru", "forget_bias": 1.0}},
    "model.position.every_layer=true": {
        "position": {"name": "learned", "join": "concat", "every_layer": True},
    },
    "model.position.width=4: join=add": {"position": {"name": "sinusoidal", "width": 4}},
    "model.position.fraction=1.5": {"position": {"name": "rotary", "fraction": 1.5}},
    "model.position.theta=-1.0": {"position": {"name": "rotary", "theta": -1}},
    "model.position.n_buckets=7": {"position": {"name": "t5", "n_buckets": 7}},
    "model.position.max_distance=16": {"position": {"name": "t5", "max_distance": 16}},
    "model.position.clip=0": {"position": {"name": "shaw", "clip": 0}},
    "model.position.base=0.0": {"position": {"name": "sinusoidal", "base": 0}},
}


def problems(name: str, **options: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        resolve({"name": name, **options})
    return caught.value.problems


NUMBERS: dict[str, list[Any]] = {
    "d_model": [0, "wide"],
    "depth": [-1, math.inf, 1.5],
    "dropout": [1, -0.1, math.nan, 10**400],
}


def test_an_impossible_option_is_refused_by_name() -> None:
    for name in ("transformer", "recurrent"):
        for field, values in NUMBERS.items():
            for value in values:
                (problem,) = problems(name, **{field: value})
                assert problem.startswith((f"model.{field}=", f"model.{field}: ")), problem
    for place, written in IMPOSSIBLE.items():
        (problem,) = problems("transformer", **written)
        assert problem.startswith(place), problem


ODD = {"d_model": 9, "n_heads": 3}
UNFIT: dict[str, dict[str, Any]] = {
    "d_head=3: without projections": {"mixer": "basic", "d_head": 3},
    "path=fused: .* choose path=explicit": {"mask": "zero", "path": "fused"},
    "mask: a window would show": {"mixer": "window", "mask": "zero", "path": "explicit"},
    "n_kv_heads=3: must divide n_heads=2": {"mixer": {"name": "attention", "n_kv_heads": 3}},
    "n_kv_heads=0: must divide": {"mixer": {"name": "window", "n_kv_heads": 0}},
    "d_head=3: rotary turns pairs": {"position": "rotary", **ODD},
    "fraction=0.375: .*even": {"position": {"name": "rotary", "fraction": 0.375}, "d_head": 8},
    "fraction=0.3: .*2.4 of": {"position": {"name": "rotary", "fraction": 0.3}, "d_head": 8},
    "width=10 do not fit d_model=8": {"position": "binary", "max_len": 1000},
    "join=concat: .*width=8 .*1 to 7": {
        "position": {"name": "learned", "join": "concat", "width": 8},
    },
}


def test_a_part_that_does_not_fit_the_sizes_says_which() -> None:
    halved = [({"mixer": name, "kind": "encoder", **ODD}, "d_model=9: must be even")
              for name in ("rnn", "gru", "lstm", "mingru")]  # fmt: skip
    for changes, words in [*((changes, words) for words, changes in UNFIT.items()), *halved]:
        with pytest.raises(ConfigError, match=words):
            build({"name": "transformer", "d_model": 8, "n_heads": 2, **changes}, 9, 9, seed=None)


def test_an_infinite_number_is_refused_inside_an_option_and_inside_a_list() -> None:
    (problem,) = problems("transformer", position={"name": "rotary", "theta": math.inf})
    assert problem == "model.position.theta: inf is not a finite number"
    with pytest.raises(ConfigError, match=r"part\.pair: nan is not a finite number"):
        validate(Pair, {"pair": [0.5, math.nan]}, "part")


@dataclass
class Pair:
    pair: list[float]


def bomb(levels: int) -> str:
    lines = ["level0: &level0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, levels):
        lines.append(f"level{level}: &level{level} [{', '.join([f'*level{level - 1}'] * 10)}]")
    return "\n".join(lines)


def test_aliases_that_multiply_are_refused_with_file_and_line() -> None:
    with pytest.raises(ConfigError, match=r"^own\.yaml:5: more than 100,000 values, aliases"):
        parse_yaml(bomb(10), "own.yaml")
    with pytest.raises(ConfigError, match=r"^own\.yaml:1: more than 100,000 values, aliases"):
        parse_yaml("a: &a [*a]", "own.yaml")
