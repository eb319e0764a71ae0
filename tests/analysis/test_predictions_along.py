"""Predictions along a coordinate: of times, which processes repeat, and of counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from speed_lab import METRICS, failed

from ablations.store.record import Reading
from analysis import stats
from analysis.load import load
from analysis.predictions import Predicted
from analysis.verdicts import Verdict, verdicts

LENGTHS = (64, 128, 256, 512)
ALONE = {"batch": 1, "pass": "forward"}
LUCK = (0.99, 1.0, 1.01)  # of three processes
NOISE = (1.001, 0.999, 1.0)  # of the control's twin


def took(
    seconds: float, at: dict[str, Any], control: float = 0.01, twin: bool = True, tilt: float = 0.0
) -> list[Reading]:
    """A sample for each process, beside the control's; tilted, they grow a little unlike."""
    own = [seconds * luck * at["length"] ** (tilt * (k - 1)) for k, luck in enumerate(LUCK)]
    return [
        Reading("layer_time", "s", at=at, session=f"s1.{k}", samples=[time], reference=[control],
                twin=[control * NOISE[k]] if twin else None)
        for k, time in enumerate(own)
    ]  # fmt: skip


def curve(power: float, tilt: float = 0.0, **place: Any) -> list[Reading]:
    """0.1 ms times a power of the length, where the shortest takes ten times as long as it
    should."""
    found = []
    for length in LENGTHS:
        slow = 10 if length == LENGTHS[0] else 1
        at = {"length": length, **ALONE, **place}
        found += took(slow * 1e-4 * length**power, at, tilt=tilt)
    return found


def ask(folder: Any, word: str, *of: str, **fields: Any) -> None:
    told = {"metric": "layer_time", "at": ALONE, **fields}
    claims = [folder.claimed("x.y", word, *of, **told)]
    folder.ablation("q", ["a", "b", "c"], seeds=[200], metrics=METRICS, claims=claims)


def fill(folder: Any, **readings: list[Reading]) -> None:
    for label in "abc":
        folder.record(label, 200, readings=readings.get(label, []))


def only(folder: Any) -> Verdict:
    (found,) = verdicts(load(folder.root))
    return found


def predicted(folder: Any) -> Predicted:
    loaded = load(folder.root)
    return Predicted(loaded, "q", loaded.ablations["q"]["claims"][0]["predicts"][0])


def slope(lengths: tuple[int, ...], values: list[float]) -> float:
    return float(np.polyfit(np.log(lengths), np.log(values), 1)[0])


def test_the_exponent_of_times_is_the_mean_of_one_slope_for_each_process(folder: Any) -> None:
    ask(folder, "exponent", "b", along="length", between=(0.0, 1.0))
    tilted = [
        Reading("layer_time", "s", at={"length": n, **ALONE}, session=f"s1.{k}", reference=[0.01],
                samples=[1e-4 * n ** (0.5 + 0.01 * k)])
        for n in LENGTHS
        for k in range(3)
    ]  # fmt: skip
    fill(folder, b=tilted)
    found = only(folder)
    (shown,) = found.evidence
    assert (found.verdict, found.n, shown["shows"]) == ("supported", 3, "exponent")
    assert shown["effect"] == pytest.approx(0.51)
    half = 4.302653 * 0.01 / math.sqrt(3)  # t of 2 degrees of freedom, at 95 %
    assert shown["level"] == pytest.approx(0.95)
    assert shown["interval"] == pytest.approx([0.51 - half, 0.51 + half], rel=1e-5)


@pytest.mark.parametrize(("since", "verdict"), [(None, "refuted"), (100, "supported")])
def test_shorter_lengths_than_since_are_left_out(
    folder: Any, since: float | None, verdict: str
) -> None:
    ask(folder, "exponent", "b", along="length", between=(0.95, 1.05), since=since)
    fill(folder, b=curve(1.0, tilt=0.001))
    (shown,) = only(folder).evidence
    seen = LENGTHS if since is None else LENGTHS[1:]
    times = [n * (10 if n == LENGTHS[0] else 1) for n in seen]
    assert shown["effect"] == pytest.approx(slope(seen, times))
    assert [spot.x for spot in predicted(folder).spots] == list(seen)
    assert only(folder).verdict == verdict


def test_a_length_at_which_one_of_them_failed_is_left_out(folder: Any) -> None:
    ask(folder, "crosses", "a", "b", along="length")
    late = failed("layer_time", {"length": 512, **ALONE})
    short = [each for each in curve(2.0) if each.at["length"] != 512]
    fill(folder, a=curve(1.0), b=[*short, *late])
    assert [spot.x for spot in predicted(folder).spots] == [64, 128, 256]


@pytest.mark.parametrize(("power", "verdict"), [(2, "supported"), (1, "refuted")])
def test_a_count_has_an_exponent_without_any_luck(folder: Any, power: int, verdict: str) -> None:
    counted = {"metric": "mixing_work", "at": {}, "between": (1.98, 2.02)}
    ask(folder, "exponent", "b", along="length", **counted)
    work = [Reading("mixing_work", "FLOPs", 7.0 * n**power, at={"length": n}) for n in LENGTHS]
    fill(folder, b=work)
    found = only(folder)
    assert (found.verdict, found.n) == (verdict, 1)
    assert found.evidence[0]["effect"] == pytest.approx(power)
    assert all(map(math.isnan, found.evidence[0]["interval"])), "nothing is left to luck"


def test_times_that_cross_do_so_where_their_log_ratio_is_zero(folder: Any) -> None:
    ask(folder, "crosses", "b", "a", along="length", since=100)
    tilt = {0: 0.999, 1: 1.0, 2: 1.001}
    other = [
        Reading("layer_time", "s", at={"length": n, **ALONE}, session=f"s1.{k}", reference=[0.01],
                twin=[0.01 * (1 + 0.0001 * k)], samples=[1e-4 / 300 * n**2 * LUCK[k] * tilt[k]])
        for n in LENGTHS
        for k in range(3)
    ]  # fmt: skip
    fill(folder, a=curve(1.0), b=other)
    found = only(folder)
    (shown,) = found.evidence
    logs_SL = [[math.log(n / 300 * tilt[k]) for n in LENGTHS[1:]] for k in range(3)]
    expected = stats.crossing(LENGTHS[1:], logs_SL, shown["level"])
    assert (found.verdict, shown["shows"]) == ("supported", "crossing")
    assert shown["effect"] == pytest.approx(300)
    assert shown["interval"] == pytest.approx([expected.low, expected.high])
    assert expected.low < 300 < expected.high


def test_times_that_cross_the_other_way_round_do_not_do_what_was_predicted(folder: Any) -> None:
    ask(folder, "crosses", "a", "b", along="length", since=100)
    other = [
        Reading("layer_time", "s", at=each.at, session=each.session, reference=[0.01],
                twin=each.twin, samples=[1e-4 / 300 * float(each.at["length"]) ** 2])
        for each in curve(1.0)
    ]  # fmt: skip
    fill(folder, a=curve(1.0), b=other)
    assert only(folder).verdict == "undecided"


def test_times_of_two_sessions_make_no_curve(folder: Any) -> None:
    ask(folder, "exponent", "a", along="length", since=100, between=(0.5, 1.5))
    readings = curve(1.0, tilt=0.01)
    fill(folder, a=readings)
    assert only(folder).verdict == "supported"
    later = [
        replace(each, session=str(each.session).replace("s1", "s2"))
        if each.at["length"] == LENGTHS[-1] else each
        for each in readings
    ]  # fmt: skip
    fill(folder, a=later)
    assert only(folder).verdict == "not run"


def test_times_that_stay_on_one_side_do_not_cross(folder: Any) -> None:
    ask(folder, "crosses", "a", "b", along="length")
    twice = [
        Reading("layer_time", "s", at=each.at, session=each.session, reference=[0.01],
                twin=each.twin,
                samples=[2.0 * sample * (1 + 0.001 * int(str(each.session)[-1]))
                         for sample in each.samples or []])
        for each in curve(1.0)
    ]  # fmt: skip
    fill(folder, a=curve(1.0), b=twice)
    assert only(folder).verdict == "refuted"


@pytest.mark.parametrize(("value", "verdict"), [(3.5, "supported"), (0.8, "refuted")])
def test_a_count_that_is_a_ratio_itself_is_compared_with_nobody(
    folder: Any, value: float, verdict: str
) -> None:
    place = {"part": "mixing", "tokens_over_width": 1.0}
    counted = {"metric": "flops_share", "at": place, "than": None, "between": (1.0, None)}
    ask(folder, "ratio", "a", **counted)
    fill(folder, a=[Reading("flops_share", "1", value, at=place)])
    found = only(folder)
    assert found.verdict == verdict
    assert found.evidence[0]["effect"] == pytest.approx(value)


def ratio(folder: Any, of: str, than: str, between: tuple[float, float], twin: bool = True) -> Any:
    """Of b, which takes about three times as long as a; one of them may have been timed alone."""
    ask(folder, "ratio", of, than=than, between=between)
    at = {"length": 64, **ALONE}
    fill(folder, a=took(0.01, at, tilt=0.002), b=took(0.03, at, twin=twin))
    return only(folder)


def test_the_control_over_a_variant_is_the_variant_over_the_control_turned_round(
    folder: Any,
) -> None:
    one = ratio(folder, "b", "a", (2.0, 4.0))
    other = ratio(folder, "a", "b", (1 / 4.0, 1 / 2.0))
    assert (one.verdict, other.verdict) == ("supported", "supported")
    (there,), (back,) = one.evidence, other.evidence
    assert there["effect"] == pytest.approx(3.0), "what is left of the luck cancels out"
    assert back["effect"] == pytest.approx(1 / there["effect"])
    low, high = there["interval"]
    assert back["interval"] == pytest.approx([1 / high, 1 / low])
    assert one.p == pytest.approx(other.p)


@pytest.mark.parametrize(("of", "than"), [("b", "a"), ("a", "b")])
def test_without_a_twin_no_ratio_is_decided_whichever_way_round(
    folder: Any, of: str, than: str
) -> None:
    found = ratio(folder, of, than, (0.01, 100.0), twin=False)
    assert found.verdict == "undecided"
    assert found.reason == "not timed at enough places, or beside no twin"


def test_places_of_a_budget_of_tokens_are_others_than_plain_batches(folder: Any) -> None:
    budget = [
        each for n in LENGTHS for each in took(
            7e-3, {"length": n, "batch": max(1, 512 // n), "pass": "forward", "tokens": 512}
        )
    ]  # fmt: skip
    assert [each.at["batch"] for each in budget][-1] == 1, "the last place has one sequence as well"
    for at, expected in ((ALONE, 1.0), ({"pass": "forward", "tokens": 512}, 0.0)):
        ask(folder, "exponent", "b", along="length", since=100, between=(-1.0, 2.0), at=at)
        fill(folder, b=[*curve(1.0), *budget])
        (shown,) = only(folder).evidence
        assert shown["effect"] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("word", "fields"),
    [
        ("exponent", {"along": "length", "between": (0.9, 1.1)}),
        ("ratio", {"than": "a", "between": (0.5, 2.0)}),
    ],
)
def test_a_place_that_is_not_told_apart_decides_nothing(
    folder: Any, word: str, fields: dict[str, Any]
) -> None:
    where = {"batch": 1} if word == "exponent" else {"batch": 1, "length": 64}
    ask(folder, word, "b", at=where, **fields)
    both = [*curve(1.0), *curve(1.0, **{"pass": "training"})]
    fill(folder, a=both, b=both)
    found = only(folder)
    assert (found.verdict, found.n) == ("not run", 0)
    assert found.reason == "nothing was timed in every arm that it looks at"
