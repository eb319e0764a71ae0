"""A model that cannot be built is refused before it is built, with the field that is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from model.build import REGISTRIES, build, resolve
from model.config import ConfigError, validate
from model.flops import parameters
from model.presets import load, names
from model.strict_yaml import parse_yaml

IMPOSSIBLE: dict[str, dict[str, Any]] = {
    "model.n_heads=7": {"n_heads": 7, "d_model": 64},
    "model.max_len=0": {"max_len": 0},
    "model.kind: ": {"kind": "both"},
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
    "fraction=0.375 .*even": {"position": {"name": "rotary", "fraction": 0.375}, "d_head": 8},
    "fraction=0.3 of it is 2.4 dim": {"position": {"name": "rotary", "fraction": 0.3}, "d_head": 8},
    "width=10 do not fit d_model=8": {"position": "binary", "max_len": 1000},
    "join=concat: .*width=8 .*1 to 7": {
        "position": {"name": "learned", "join": "concat", "width": 8},
    },
}


def test_a_component_that_does_not_fit_the_sizes_says_which() -> None:
    halved = [({"mixer": name, "kind": "encoder", **ODD}, "d_model=9: must be even")
              for name in ("rnn", "gru", "lstm", "mingru")]  # fmt: skip
    for changes, words in [*((changes, words) for words, changes in UNFIT.items()), *halved]:
        with pytest.raises(ConfigError, match=words):
            build({"name": "transformer", "d_model": 8, "n_heads": 2, **changes}, 9, 9, seed=None)


def test_an_infinite_number_is_refused_inside_an_option_and_inside_a_list() -> None:
    (problem,) = problems("transformer", position={"name": "rotary", "theta": math.inf})
    assert problem == "model.position.theta: inf is not a finite number"
    with pytest.raises(ConfigError, match=r"own\.pair: nan is not a finite number"):
        validate(Pair, {"pair": [0.5, math.nan]}, "own")


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


ROTARY = {"name": "rotary", "theta": 10_000.0, "fraction": 1.0, "pairing": "halves"}


def test_one_choice_written_in_many_ways_resolves_to_one_form() -> None:
    resolved = resolve({"name": "transformer", "d_model": 32, "position": "rotary"})
    assert resolved["position"] == ROTARY
    for written in [
        {"position": {"name": "rotary"}, "d_model": 32.0, "name": "transformer"},
        {"name": "transformer", "d_model": 32, "position": {"theta": 10_000, "name": "rotary"}},
        {"name": "transformer", "d_model": 32, "position": "rotary", "norm": "layer", "depth": 2},
        resolved,
    ]:  # 32, not 32.0; the order of the Config, not the writer's
        assert repr(resolve(written)) == repr(resolved)
    assert resolve("transformer") == resolve({"name": "transformer"})


MISTAKES: dict[str, Any] = {
    "model: no model 'transfomer'. Did you mean 'transformer'?": "transfomer",
    "model: no model 'aeroplane'. Choose from: recurrent, transformer.": "aeroplane",
    "model: expected a model's name, got False": False,
    "model.dept: no such option. Did you mean 'depth'?": {"dept": 3},
    "model.position: no position 'rotray'. Did you mean 'rotary'?": {"position": "rotray"},
    "model.mask.age: takes no options": {"mask": {"name": "zero", "age": 3}},
    "model.position.thet: no such option. Did you mean 'theta'?":
        {"position": {"name": "rotary", "thet": 3}},
    "model.position.theta=-1.0: must be above 0": {"position": {"name": "rotary", "theta": -1}},
}  # fmt: skip


def test_a_mistake_is_answered_with_its_place_and_the_nearest_right_name() -> None:
    for message, written in MISTAKES.items():
        with pytest.raises(ConfigError) as caught:
            resolve({"name": "transformer", **written} if isinstance(written, dict) else written)
        assert caught.value.problems == [message]


def test_a_value_of_the_wrong_type_is_refused_at_its_option() -> None:
    for value in ["many", 2.5, True, None, [4], {"name": "wood"}]:
        (problem,) = problems("transformer", n_heads=value)
        assert problem.startswith("model.n_heads: "), problem


def test_all_mistakes_are_listed_at_once() -> None:
    norm, position = {"name": "rms", "eps": -1}, {"name": "shaw", "clip": "x", "clap": 3}
    found = problems(
        "transformer", depth="many", colour="red", norm=norm, position=position, max_len=-1,
        dropout=2,
    )  # fmt: skip
    assert [problem.split(":")[0] for problem in found] == [
        "model.depth", "model.colour", "model.norm.eps=-1.0", "model.position.clip",
        "model.position.clap", "model.dropout=2.0", "model.max_len=-1",
    ]  # fmt: skip


# What a component does if nobody says otherwise: its formula was tried with these.
CELLS = {
    "rnn": {"form": "kernel"},
    "gru": {"form": "kernel"},
    "lstm": {"form": "kernel", "forget_bias": 0.0},
}
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
        **CELLS,
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
    "init": {"normal": {"std": 0.02}},
    "cell": CELLS,
}


def test_a_bare_name_means_what_is_written_here() -> None:
    for registry in REGISTRIES:
        if registry.word != "model":
            known = DEFAULTS.get(registry.word, {})
            for name in registry.components:
                assert registry.resolve(name) == {"name": name, **known.get(name, {})}


PUBLISHED = {
    "gpt2": 124_439_808,
    "bert-base": 108_891_648,  # with two segments and the embedding's norm, without the pooler
    "bert-classifier": 109_483_778,
    "t5-small": 60_506_624,
    "tinyllama": 1_100_048_384,
    "bloom-560m": 559_214_592,
    "bart-base": 139_420_416 - 2 * 2 * 768,  # two tables of positions begin with two dead rows
}
PAPER = {"transformer-base": 65e6, "transformer-big": 213e6}  # Vaswani et al. 2017, table 3


def counted(name: str) -> int:
    preset = load(name)
    with torch.device("meta"):
        return parameters(build(preset.model, preset.source_size, preset.target_size, None))


def test_every_preset_has_as_many_parameters_as_the_published_checkpoint() -> None:
    assert sorted(PUBLISHED | PAPER) == names()
    for name in PUBLISHED:
        assert counted(name) == PUBLISHED[name]
    for name in PAPER:
        assert counted(name) == pytest.approx(PAPER[name], rel=0.035)


def test_a_preset_writes_out_every_value() -> None:
    """A d_head of null says that it follows from d_model and n_heads: change one, and it moves."""
    for name in names():
        written = load(name).model
        d_head = written["d_head"] or written["d_model"] // written["n_heads"]
        assert {**written, "d_head": d_head} == resolve(written)
