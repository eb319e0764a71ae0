"""Where a question is timed: each coordinate with each, as far as a profile goes."""

from __future__ import annotations

from typing import Any

import pytest
from small import question

from ablations.measure.timing import TimingConfig
from ablations.plan.points import places
from ablations.plan.question import Ablation
from model.config import ConfigError

MEASURES = ["layer", "decode", "padding"]


def at(measure: str = "layer", timing: dict[str, Any] | None = None, **points: Any) -> list[Any]:
    asked = question(measures=MEASURES, points={measure: points} if points else {})
    return places(measure, Ablation(**asked), TimingConfig(**(timing or {})))


def test_what_is_not_asked_is_where_the_measure_says() -> None:
    assert at() == [{"length": 64, "batch": 1, "pass": "training"}]
    assert at("decode") == [{"position": 32, "batch": 1, "cache": "kept"}]
    assert at("padding") == [{"batches": 4, "to": "own"}, {"batches": 4, "to": "longest"}]


def test_a_budget_of_tokens_makes_the_batch() -> None:
    found = at(length=[8, 24, 64, 128], tokens=[64])
    assert [(p["length"], p["batch"]) for p in found] == [(8, 8), (24, 2), (64, 1), (128, 1)]
    assert {p["tokens"] for p in found} == {64}


# As far as a profile goes.


def lengths(values: list[int], **timing: Any) -> list[int]:
    return [place["length"] for place in at(timing=timing, length=values)]


def test_a_thinned_walk_keeps_its_ends_and_is_spread_evenly() -> None:
    values = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
    assert lengths(values, lengths=5) == [32, 128, 512, 2048, 8192]
    assert lengths(values, lengths=3) == [32, 512, 8192]
    assert lengths(values, lengths=2) == [32, 8192]
    assert lengths(values, lengths=9) == lengths(values, lengths=20) == values


def test_what_is_longer_than_a_profile_goes_is_left_out_before_it_is_thinned() -> None:
    values = [16, 32, 64, 128, 256]
    assert lengths(values, longest=128) == [16, 32, 64, 128]
    assert lengths(values, longest=100, lengths=2) == [16, 64]
    assert lengths(values, longest=1) == [16], "one is left to be timed"


def test_only_the_walked_coordinate_is_thinned() -> None:
    found = at("decode", {"longest": 8, "lengths": 2}, position=[4, 8, 16], batch=[1, 2, 16])
    assert [(p["position"], p["batch"]) for p in found] == [
        (far, batch) for batch in (1, 2, 16) for far in (4, 8)
    ]


# What is refused.


def test_a_wrong_place_is_answered_in_one_line() -> None:
    for points, words in [
        ({"lenght": [8]}, "points.layer.lenght: is no coordinate of it. Did you mean 'length'"),
        ({"position": [8]}, "points.layer.position: is no coordinate of it"),
        ({"length": []}, "points.layer.length: expected a list of values, got []"),
        ({"length": 8}, "points.layer.length: expected a list of values, got 8"),
        ({"pass": []}, "points.layer.pass: expected a list of values, got []"),
        ({"length": [16, 8]}, "points.layer.length: expected whole numbers that rise"),
        ({"length": [8, 8]}, "points.layer.length: expected whole numbers that rise"),
        ({"length": [0, 8]}, "points.layer.length: expected whole numbers that rise"),
        ({"length": [8.5]}, "points.layer.length: expected whole numbers that rise"),
        ({"length": ["8"]}, "points.layer.length: expected whole numbers that rise"),
        ({"batch": [True]}, "points.layer.batch: expected whole numbers that rise"),
        ({"tokens": [64, 32]}, "points.layer.tokens: expected whole numbers that rise"),
        ({"pass": ["forwards"]}, "points.layer.pass: no 'forwards'. Did you mean 'forward'"),
    ]:
        with pytest.raises(ConfigError) as error:
            at(**points)
        (line,) = error.value.problems
        assert line.startswith(words)
        assert "\n" not in line


def test_points_of_what_is_not_measured_are_refused() -> None:
    asked = question(points={"troughput": {"length": [8]}, "layer": 7}, measures=["throughput"])
    with pytest.raises(ConfigError) as error:
        Ablation(**asked)
    told = "\n".join(error.value.problems)
    assert "points.layer: expected {coordinate: [values]}, got 7" in told
    assert "points.troughput: this question does not measure it" in told
    assert "'throughput'" in told
