"""How trials share a device: which ways there are, which is quickest, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.plan.wanted import Plan, Want, make_plan
from ablations.plan.ways import (
    TimedWay,
    Way,
    candidates,
    group_of,
    keep_ways,
    kept_ways,
    quickest_way,
    read_ways,
    time_ways,
    why_alone,
)
from ablations.store.results import Results
from model.config import ConfigError
from model.positions import POSITION, Position

Ask = Callable[..., str]


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "out")


def first(ask: Ask, profile: str = "smoke", **overrides: Any) -> Want:
    plan = make_plan([ask(variants={"with": {}}, settings={})], profile, overrides, [0])
    return next(iter(plan.wanted.values()))


# What can be packed.


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({}, None),
        ({"train.precision": "bfloat16"}, None),
        ({"train.optimiser": "sgd"}, None),
        ({"model": {"name": "recurrent", "d_model": 8}}, None),
        ({"model.dropout": 0.1}, "dropout"),
        ({"model.attention_dropout": 0.1}, "dropout"),
        ({"model": {"name": "recurrent", "d_model": 8, "dropout": 0.2}}, "dropout"),
        ({"train.compile": True}, "compiled"),
    ],
)
def test_a_trial_is_trained_alone_for_a_reason(
    ask: Ask, overrides: dict[str, Any], why: str | None
) -> None:
    assert why_alone(first(ask, **overrides)) == why


@pytest.fixture
def of_ours() -> Iterator[str]:
    class OfOurs(Position):
        """A scheme from elsewhere."""

    POSITION.register("of_ours")(OfOurs)
    yield "of_ours"
    del POSITION.parts["of_ours"]


def test_a_part_of_ones_own_is_not_packed(ask: Ask, of_ours: str) -> None:
    assert why_alone(first(ask, **{"model.position": of_ours})) == "own"


def test_what_is_only_probed_is_not_packed(ask: Ask) -> None:
    probed = ask(measures=["permutation"], metric="permutation_gap")
    (want, *_) = make_plan([probed], "smoke", {}, [0]).wanted.values()
    assert why_alone(want) == "untrained"


def test_at_gpu_small_tasks_are_packed_and_large_models_are_compiled_in_half_precision() -> None:
    names = ("copy", "reverse", "sort", "distance", "pair", "listops")
    small = make_plan(names, "gpu", {}, [200]).wanted.values()
    assert {want.config["task"]["name"] for want in small} >= {"copy", "reverse", "recall"}
    for want in small:
        assert why_alone(want) is None, want.title
        assert want.config["train"]["precision"] == "float32"
    for want in make_plan(("position", "text-norm", "tokens"), "gpu", {}, [200]).wanted.values():
        train = want.config["train"]
        assert (train["compile"], train["precision"]) == (True, "bfloat16"), want.title


# Groups and candidates.


@pytest.fixture
def plan(ask: Ask) -> Plan:
    """Two arms of one size and one that is much larger, three seeds each."""
    variants = {"with": {}, "without": {"model.position": "none"}, "wide": {"model.d_model": 64}}
    return make_plan([ask(variants=variants)], "smoke", {}, [0, 1, 2])


def test_arms_of_a_like_size_are_one_group(plan: Plan) -> None:
    groups = [group_of(want) for want in plan.wanted.values()]
    assert groups[:6] == groups[:1] * 6
    assert groups[6:] == groups[6:7] * 3
    assert groups[0] != groups[6]


@pytest.mark.parametrize(
    "overrides",
    [
        {"train.batch_tokens": 900},
        {"train.precision": "bfloat16"},
        {"model.dropout": 0.1},
        {"train.compile": True},
        {"model.mixer": "window"},
        {"model.path": "explicit"},
    ],
    ids=str,
)
def test_what_takes_another_time_is_another_group(ask: Ask, overrides: dict[str, Any]) -> None:
    assert group_of(first(ask)) != group_of(first(ask, **overrides))


def test_a_trial_can_go_alone_beside_others_packed_or_both(ask: Ask) -> None:
    want = first(ask)
    assert candidates(want, 5, [1, 2, 4]) == [Way(1), Way(1, 2), Way(1, 4), Way(5), Way(5, 2)]
    assert candidates(want, 50, [1])[-1] == Way(10)
    assert candidates(want, 1, [1, 2]) == [Way(1), Way(1, 2)]
    assert candidates(first(ask, **{"model.dropout": 0.1}), 5, [1, 2]) == [Way(1), Way(1, 2)]


def test_what_is_compiled_has_a_device_to_itself(ask: Ask) -> None:
    assert candidates(first(ask, **{"train.compile": True}), 5, [1, 2, 4]) == [Way(1)]


# The choice.


class FakeClock:
    """A trial takes as long as its way says; None where it does not fit."""

    def __init__(self, seconds: dict[Way, float | None]) -> None:
        self.seconds = seconds
        self.asked: list[tuple[str, Way]] = []

    def __call__(self, want: Want, way: Way) -> float | None:
        self.asked.append((want.title, way))
        return self.seconds[way]


@pytest.mark.parametrize(
    ("seconds", "best"),
    [
        ((8.0, 8.0, 8.0, 8.0), Way(1)),
        ((8.0, 5.0, 3.0, 4.0), Way(3)),
        ((8.0, 5.0, 6.0, 4.0), Way(3, 2)),
        ((8.0, 5.0, 6.0, 7.0), Way(1, 2)),
        ((8.0, 9.0, None, None), Way(1)),
        ((None, None, 6.0, None), Way(3)),
        ((None, None, None, None), None),
    ],
)
def test_the_quickest_way_that_can_be_gone_is_chosen(
    plan: Plan, seconds: tuple[float | None, ...], best: Way | None
) -> None:
    ways = (Way(1), Way(1, 2), Way(3), Way(3, 2))
    clock = FakeClock(dict(zip(ways, seconds, strict=True)))
    wants = list(plan.wanted.values())
    timed = time_ways(wants, {}, clock, [1, 2])
    assert set(timed) == {group_of(wants[0]), group_of(wants[6])}
    for each in timed.values():
        assert [one.way for one in each] == list(ways)
        chosen = quickest_way(each)
        assert (chosen and chosen.way) == best


def test_one_arm_is_timed_for_its_whole_group(plan: Plan) -> None:
    clock = FakeClock({Way(1): 2.0, Way(3): 1.0})
    timed = time_ways(list(plan.wanted.values()), {}, clock, [1])
    titles = [title.rpartition(":")[2] for title, _ in clock.asked]
    assert titles == ["with seed 0"] * 2 + ["wide seed 0"] * 2
    clock.asked.clear()
    assert time_ways(list(plan.wanted.values()), timed, clock, [1]) == {}
    assert clock.asked == []


def test_a_group_that_was_timed_with_one_seed_is_packed_when_there_are_more(plan: Plan) -> None:
    wants = list(plan.wanted.values())[:3]
    clock = FakeClock({Way(1): 2.0, Way(3): 1.0})
    alone = time_ways(wants[:1], {}, clock, [1])
    assert [each.way for each in alone[group_of(wants[0])]] == [Way(1)]
    clock.asked.clear()
    both = time_ways(wants, alone, clock, [1])
    assert [each.way for each in both[group_of(wants[0])]] == [Way(1), Way(3)]
    assert [way for _, way in clock.asked] == [Way(3)]  # and not again what is known


def test_a_rate_is_seconds_for_a_unit_of_work(plan: Plan) -> None:
    want = next(iter(plan.wanted.values()))
    ((only,),) = time_ways([want], {}, FakeClock({Way(1): 6.0}), [1]).values()
    assert only.rate == pytest.approx(6.0 / want.work)


@pytest.mark.parametrize(
    ("way", "words"),
    [(Way(), "one at a time"), (Way(5), "5 seeds packed"), (Way(1, 2), "2 workers a device"),
     (Way(5, 2), "5 seeds packed, 2 workers a device")],
)  # fmt: skip
def test_a_way_is_told_in_words(way: Way, words: str) -> None:
    assert str(way) == words


# What is kept.

TIMED = [TimedWay("copy", 1, 1, 2.5), TimedWay("copy", 10, 1, None)]


def test_what_was_timed_is_kept_for_this_machine_and_this_device(results: Results) -> None:
    assert read_ways(results, "2 × cuda") == {}
    keep_ways(results, "2 × cuda", {"copy": TIMED})
    assert read_ways(results, "2 × cuda") == {"copy": TIMED}
    assert read_ways(results, "1 × cuda") == {}
    keep_ways(results, "1 × cuda", {})
    assert read_ways(results, "2 × cuda") == {"copy": TIMED}  # one device's do not end another's
    assert [path.name for path in results.root.rglob("*.json")] == [kept_ways(results).name]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"here": [{"pack": 1}]}', '{"here": 1}'])
def test_what_was_kept_and_cannot_be_used_is_named_with_the_way_out(
    results: Results, text: str
) -> None:
    keep_ways(results, "here", {})
    kept_ways(results).write_text(text)
    with pytest.raises(ConfigError, match="remove it and run again") as error:
        read_ways(results, "here")
    assert str(kept_ways(results)) in str(error.value)
