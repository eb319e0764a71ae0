"""A model that cannot be built is refused before it is built, with the field that is wrong."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from model.build import REGISTRIES, build, resolve
from model.config import ConfigError, Registry, choice, validate
from model.flops import parameters
from model.presets import load, names
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


WHEEL = Registry("wheel")
CAR = Registry("car")


@WHEEL.register("wood")
class Wood:
    """A part without options."""


@WHEEL.register("rubber")
class Rubber:
    @dataclass(frozen=True, kw_only=True)
    class Config:
        pressure: float = 2.0
        spokes: int | None = None

        def __post_init__(self) -> None:
            if self.pressure <= 0:
                raise ConfigError([f"pressure={self.pressure}: must be positive"])

    def __init__(self, config: Config, width: int) -> None:
        self.config, self.width = config, width


@CAR.register("van")
class Van:
    @dataclass(frozen=True, kw_only=True)
    class Config:
        doors: int = 4
        weight: float = 1.5
        front: dict[str, Any] = choice(WHEEL, "rubber", pressure=3)
        rear: dict[str, Any] = choice(WHEEL, "wood")

        def __post_init__(self) -> None:
            problems_of_car = []
            if self.doors < 1:
                problems_of_car.append(f"doors={self.doors}: must be at least 1")
            if self.weight < 0:
                problems_of_car.append(f"weight={self.weight}: must not be negative")
            if problems_of_car:
                raise ConfigError(problems_of_car)

    def __init__(self, config: Config) -> None:
        self.config = config


RESOLVED = {
    "name": "van",
    "doors": 4,
    "weight": 1.5,
    "front": {"name": "rubber", "pressure": 3.0, "spokes": None},
    "rear": {"name": "wood"},
}


def problems_of_car(written: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        CAR.resolve(written)
    assert str(caught.value) == "\n".join(caught.value.problems)
    return caught.value.problems


def test_one_choice_written_in_many_ways_resolves_to_one_form() -> None:
    for written in [
        "van",
        {"name": "van"},
        {"name": "van", "doors": 4},
        {"doors": 4.0, "weight": 1.5, "name": "van"},
        {"name": "van", "rear": "wood"},
        {"name": "van", "rear": {"name": "wood"}, "front": {"name": "rubber", "pressure": 3}},
        {"name": "van", "front": {"spokes": None, "pressure": 3.0, "name": "rubber"}},
        RESOLVED,
    ]:
        resolved = CAR.resolve(written)
        assert resolved == RESOLVED
        assert repr(resolved) == repr(
            RESOLVED
        )  # 4, not 4.0; the order of the Config, not the writer's


def test_options_are_replaced_whole_and_never_mixed_with_a_sibling() -> None:
    assert CAR.resolve({"name": "van", "front": "wood"})["front"] == {"name": "wood"}
    front = CAR.resolve({"name": "van", "front": "rubber"})["front"]
    assert front["pressure"] == 2.0  # the part's own default, not what the van puts in front


def test_a_mistake_is_answered_with_its_place_and_the_nearest_right_name() -> None:
    for written, message in [
        ("vam", "car: no car 'vam'. Did you mean 'van'?"),
        ("aeroplane", "car: no car 'aeroplane'. Choose from: van."),
        (False, "car: expected a car's name, got False"),
        ({"name": "van", "dors": 3}, "car.dors: no such option. Did you mean 'doors'?"),
        ({"name": "van", "rear": "woood"}, "car.rear: no wheel 'woood'. Did you mean 'wood'?"),
        ({"name": "van", "rear": {"name": "wood", "age": 3}}, "car.rear.age: takes no options"),
        (
            {"name": "van", "front": {"name": "rubber", "presure": 3}},
            "car.front.presure: no such option. Did you mean 'pressure'?",
        ),
        (
            {"name": "van", "front": {"name": "rubber", "pressure": -1}},
            "car.front.pressure=-1.0: must be positive",
        ),
    ]:
        assert problems_of_car(written) == [message]


def test_a_value_of_the_wrong_type_is_refused_at_its_option() -> None:
    for value in ["many", 2.5, True, None, [4], {"name": "wood"}]:
        (problem,) = problems_of_car({"name": "van", "doors": value})
        assert problem.startswith("car.doors: ")


def test_all_mistakes_are_listed_at_once() -> None:
    written = {
        "name": "van",
        "doors": "many",
        "colour": "red",
        "front": {"name": "rubber", "pressure": -1},
        "rear": {"name": "rubber", "pressure": "x", "spoke": 3},
    }
    found = problems_of_car(written)
    assert [problem.split(":")[0] for problem in found] == [
        "car.doors",
        "car.colour",
        "car.front.pressure=-1.0",
        "car.rear.pressure",
        "car.rear.spoke",
    ]
    assert len(problems_of_car({"name": "van", "doors": 0, "weight": -1})) == 2


def test_a_part_is_built_from_its_options_and_from_what_its_constructor_names() -> None:
    built = WHEEL.build({"name": "rubber", "pressure": 5}, width=3, colour="red")
    assert isinstance(built, Rubber)
    assert (built.config.pressure, built.config.spokes, built.width) == (5.0, None, 3)
    assert isinstance(WHEEL.build("wood", width=3), Wood)


# What a part does if nobody says otherwise: the formulas beside it were tried with these.
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
    "init": {"normal": {"std": 0.02}},
    "cell": {
        "rnn": {"form": "kernel"},
        "gru": {"form": "kernel"},
        "lstm": {"form": "kernel", "forget_bias": 0.0},
    },
}


def test_a_bare_name_means_what_is_written_here() -> None:
    for registry in REGISTRIES:
        if registry.word != "model":
            known = DEFAULTS.get(registry.word, {})
            for name in registry.components:
                assert registry.resolve(name) == {"name": name, **known.get(name, {})}, (
                    registry.word
                )


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
