"""Which trials can be packed with other seeds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from small import SETTINGS

from ablations.plan.wanted import Want, make_plan
from ablations.plan.ways import can_pack
from model.positions import POSITION, Position

Ask = Callable[..., str]
REASONS = [
    ({}, None),
    ({"train.precision": "bfloat16"}, None),
    ({"train.optimizer": "sgd"}, None),
    ({"model": {"name": "recurrent", "d_model": 8}}, None),
    ({"model.dropout": 0.1}, "dropout"),
    ({"model": {"name": "recurrent", "d_model": 8, "dropout": 0.2}}, "dropout"),
    ({"train.compile": True}, "compiled"),
]


def first(ask: Ask, **overrides: object) -> Want:
    plan = make_plan([ask(variants={"with": {}}, settings={})], "smoke", overrides, [0])
    return next(iter(plan.wanted.values()))


def test_a_trial_is_trained_alone_for_a_reason(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(overrides, can_pack(first(ask, **overrides))) for overrides, _ in REASONS]
    assert found == REASONS
    untrained = ask(sources=["share"], metric="time_share", settings=SETTINGS)
    (want, *_) = make_plan([untrained], "smoke", {}, None).wanted.values()
    assert can_pack(want) == "untrained"

    class Mine(Position):
        """A user's own."""

    Mine.__module__ = "my_parts"
    monkeypatch.setitem(POSITION.components, "mine", Mine)
    assert can_pack(first(ask, **{"model.position": "mine"})) == "own"
