"""From a written choice to a part: every default filled in, every mistake named."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from model.build import FAMILIES
from model.config import ConfigError
from model.registry import Registry, choice

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
            problems = []
            if self.doors < 1:
                problems.append(f"doors={self.doors}: must be at least 1")
            if self.weight < 0:
                problems.append(f"weight={self.weight}: must not be negative")
            if problems:
                raise ConfigError(problems)

    def __init__(self, config: Config) -> None:
        self.config = config


RESOLVED = {
    "name": "van",
    "doors": 4,
    "weight": 1.5,
    "front": {"name": "rubber", "pressure": 3.0, "spokes": None},
    "rear": {"name": "wood"},
}


def problems(written: Any) -> list[str]:
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
        assert problems(written) == [message]


def test_a_value_of_the_wrong_type_is_refused_at_its_option() -> None:
    for value in ["many", 2.5, True, None, [4], {"name": "wood"}]:
        (problem,) = problems({"name": "van", "doors": value})
        assert problem.startswith("car.doors: ")


def test_all_mistakes_are_listed_at_once() -> None:
    written = {
        "name": "van",
        "doors": "many",
        "colour": "red",
        "front": {"name": "rubber", "pressure": -1},
        "rear": {"name": "rubber", "pressure": "x", "spoke": 3},
    }
    found = problems(written)
    assert [problem.split(":")[0] for problem in found] == [
        "car.doors",
        "car.colour",
        "car.front.pressure=-1.0",
        "car.rear.pressure",
        "car.rear.spoke",
    ]
    assert len(problems({"name": "van", "doors": 0, "weight": -1})) == 2


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
    for family in FAMILIES:
        if family.word != "model":
            known = DEFAULTS.get(family.word, {})
            for name in family.components:
                assert family.resolve(name) == {"name": name, **known.get(name, {})}, family.word
