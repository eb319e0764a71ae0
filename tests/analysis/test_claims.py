"""The verdict of a claim: from several findings, of a batch of seeds, and what is said of it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from planted import Planted, at_end, only, says, timed

from analysis.claims import claims, expected_errors, undertrained
from analysis.contrasts import Evidence

FIRST, SECOND = [300, 301, 302, 303, 304], [305, 306, 307, 308, 309]
YES, NO, OPEN = says("worse", by=0.1), says("better"), says("worse", by=0.2)
RATE = "train.optimizer.lr"
WORDS = ("supported", "refuted", "undecided")


def fill(planted: Planted, seeds: Sequence[int], a: float = 0.25, b: float = 0.45) -> None:
    """The variant is 0.2 above its control, by a little more or less in each seed."""
    for seed in seeds:
        luck = 0.01 * (seed % 3)
        planted.record("a", seed, a + luck, seconds=60.0)
        planted.record("b", seed, b + luck + 0.002 * (-1) ** seed, seconds=30.0)


def asked(*predicts: dict[str, Any], seeds: Sequence[int] = FIRST, **changes: Any) -> Planted:
    planted = Planted()
    planted.question(*predicts, **changes)
    fill(planted, seeds)
    return planted


@pytest.mark.parametrize(
    ("predicts", "expected"),
    [
        ([YES], "supported"),
        ([NO], "refuted"),
        ([OPEN], "undecided"),
        ([YES, YES], "supported"),
        ([NO, NO], "refuted"),
        ([YES, NO], "mixed"),
        ([YES, NO, OPEN], "mixed"),
        ([YES, OPEN], "undecided"),
        ([NO, OPEN], "undecided"),
    ],
)
def test_a_claim_is_supported_when_all_it_predicts_is_and_mixed_when_some_is_refuted(
    predicts: list[dict[str, Any]], expected: str
) -> None:
    found = only(asked(*predicts))
    assert found.verdict == expected
    told = {json.dumps(YES): WORDS[0], json.dumps(NO): WORDS[1], json.dumps(OPEN): WORDS[2]}
    assert [f.verdict for f in found.findings] == [told[json.dumps(each)] for each in predicts]
    assert (found.reason == "") == (expected != "undecided")


@pytest.mark.parametrize(
    ("required", "expected"),
    [(YES, "supported"), (NO, "undecided"), (OPEN, "undecided")],
    ids=["holds", "does not", "is open"],
)
def test_a_claim_is_judged_only_where_what_it_requires_is_supported(
    required: dict[str, Any], expected: str
) -> None:
    found = only(asked(YES, require=[required]))
    assert found.verdict == expected
    assert [f.role for f in found.findings] == ["predicts", "requires"]
    if expected == "undecided":
        word = found.findings[1].verdict
        assert found.reason.startswith(f"what it requires is {word}: b")


@pytest.mark.parametrize("done", [1, 2, 3, 4])
def test_no_verdict_before_every_planned_seed_is_there(done: int) -> None:
    planted = asked(YES, seeds=FIRST[:done])
    found = only(planted)
    assert (found.verdict, found.reason, found.n) == ("undecided", f"pass {done} of 5", done)
    assert found.remedy == "the experiment, run to its end"
    (shown,) = found.findings
    assert shown.verdict == "undecided"
    assert shown.effect == pytest.approx(0.2, abs=0.01)  # shown all the same
    assert math.isnan(shown.low) == (done < 3)
    del planted.records["q-b--300"]  # a seed that one side lacks is no pass
    assert only(planted).n == done - 1


def test_fewer_than_three_seeds_give_numbers_and_no_verdict_and_none_is_not_run() -> None:
    found = only(asked(YES, batches=[FIRST[:2]], seeds=FIRST[:2]))
    assert (found.verdict, found.reason) == ("undecided", "2 seeds; 3 are needed for a verdict")
    assert found.findings[0].effect == pytest.approx(0.2, abs=0.01)
    found = only(asked(YES, seeds=[]))
    assert (found.verdict, found.reason) == ("not run", "no planned seed has ended")


def test_seeds_of_a_second_batch_are_judged_alone() -> None:
    planted = asked(YES, batches=[FIRST, SECOND])
    assert (only(planted).verdict, only(planted).n) == ("supported", 5)
    fill(planted, SECOND[:4], a=0.45, b=0.25)
    assert only(planted).verdict == "supported"  # the second batch is not whole yet
    fill(planted, SECOND, a=0.45, b=0.25)
    found = only(planted)
    assert (found.verdict, found.n) == ("refuted", 5)
    assert found.findings[0].effect == pytest.approx(-0.2, abs=0.01)


@pytest.mark.parametrize("planned", [[], SECOND[:2]], ids=["unplanned", "two"])
def test_stored_seeds_that_nobody_planned_or_too_few_change_nothing(planned: list[int]) -> None:
    planted = asked(YES, batches=[FIRST, planned] if planned else [FIRST])
    before = only(planted)
    fill(planted, planned or SECOND, a=0.9, b=0.1)
    assert only(planted).verdict == before.verdict
    assert repr(only(planted).findings) == repr(before.findings)


def test_what_is_open_says_the_seeds_and_minutes_that_would_decide() -> None:
    planted = Planted()
    planted.question(says("worse"))
    draw = np.random.default_rng(3)
    for seed in FIRST:
        planted.record("a", seed, 0.5 + draw.normal(0, 0.1), seconds=60.0)
        planted.record("b", seed, 0.55 + draw.normal(0, 0.1), seconds=30.0)
    found = only(planted)
    needed = found.findings[0].needed
    assert found.verdict == "undecided"
    assert found.reason == "its interval holds the edge of what is predicted"
    minutes = round(needed * 1.5)
    assert found.remedy == f"about {needed:.0f} fresh seeds (about {minutes} min of one core)"


def test_rates_that_are_open_say_how_many_seeds_would_decide_at_the_same_rates() -> None:
    planted = Planted()
    planted.question(says("fails"))
    for seed in FIRST:
        planted.record("a", seed, 0.5)
        planted.record("b", seed, 0.5, status="ok" if seed < 302 else "diverged")
    (found,) = only(planted).findings
    assert found.verdict == "undecided"
    assert 5 < found.needed <= 10


@pytest.mark.parametrize("kind", ["trivial_per", "copied_per"])
def test_a_control_no_better_than_a_trivial_answer_vetoes(kind: str) -> None:
    planted = asked(YES)
    for seed in FIRST:
        planted.records[f"q-a--{seed}"].measurements.append(at_end(kind, 0.25))
    found = only(planted)
    assert found.verdict == "undecided"
    assert found.reason.startswith("undertrained: a scores no better than")
    assert found.findings[0].verdict == "supported"  # shown, and not the verdict


def test_a_control_that_is_mostly_stuck_vetoes_and_one_stuck_seed_does_not() -> None:
    planted = asked(says("fails"))
    for seed in FIRST[:3]:
        planted.record("a", seed, 0.25, status="stuck")
    assert undertrained(planted.loaded(), "q") == "3 of 5 of its baselines are stuck"
    assert only(planted).verdict == "undecided"
    planted.record("a", 300, 0.25)
    planted.record("a", 301, 0.25)
    assert undertrained(planted.loaded(), "q") == ""


def test_what_is_timed_or_counted_asks_no_control() -> None:
    planted = Planted()
    exact = says("exact", value=2.0, within=0.0, metric="work", fails_for="a")
    planted.question(exact, batches=[[300]])
    planted.record("a", 300, 0.5, at_end("work", 1.0), at_end("trivial_per", 0.1))
    planted.record("b", 300, 0.5, at_end("work", 2.0))
    assert only(planted).verdict == "supported"


def test_tuned_arms_are_not_judged_by_untuned_ones() -> None:
    planted = asked(says("worse"), grid={RATE: [0.1, 0.2]})
    found = only(planted)
    assert (found.verdict, found.reason) == ("not run", "its variants are not tuned here")
    planted.entries["q"]["tuning"] = [{"variant": "a", "chosen": {RATE: 0.1}}]
    assert only(planted).verdict == "supported"


def test_a_claim_of_seeds_and_times_waits_for_both() -> None:
    ratio = says("ratio", metric="step_time", than="a", between=[1.5, None])
    planted = asked(YES, ratio)
    found = only(planted)
    assert (found.verdict, found.reason) == (
        "undecided",
        "not timed at the places that it looks at",
    )
    for label, times in (("a", timed(1.0)), ("b", timed(2.0, 0.02))):
        planted.records[f"q-{label}--300"].measurements += times
    assert only(planted).verdict == "supported"
    assert [f.n for f in only(planted).findings] == [5, 3]


def document(planted: Planted, *ids: str) -> list[dict[str, Any]]:
    loaded = planted.loaded()
    return claims(Evidence.of(loaded), ids)


def test_a_document_is_strict_json_with_every_finding() -> None:
    planted = asked(YES, OPEN, says("fails"), require=[YES])
    (told,) = document(planted)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    assert (told["done"], told["trials"]) == (10, 10)
    assert [f["role"] for f in told["findings"]] == ["predicts"] * 3 + ["requires"]
    first, _, rate, _ = told["findings"]
    assert first["prediction"] == YES
    assert first["bounds"] == [0.1, None]
    assert first["low"] < first["effect"] < first["high"]
    assert rate["rates"] == {"b": [5, 5], "a": [5, 5]}


def test_a_claim_that_is_not_there_is_answered_with_the_nearest() -> None:
    planted = asked(YES)
    planted.entries["q"]["claims"][0]["id"] = "norm.pre-better"
    with pytest.raises(ValueError, match=r"Did you mean 'norm\.pre-better'"):
        document(planted, "norm.pre-beter")
    assert len(document(planted, "norm.pre-better")) == 1


def test_expected_errors_count_what_an_interval_judges() -> None:
    planted = asked(YES, NO, OPEN)
    planted.question(says("worse"), name="waiting")
    exact = says("exact", value=2.0, within=0.0, metric="work", fails_for="a")
    planted.question(exact, name="counted", batches=[[300]])
    for label in ("a", "b"):
        planted.record(label, 300, 0.5, at_end("work", 1.0), name="counted")
    said = expected_errors(document(planted), Evidence.of(planted.loaded()).contrasts)
    assert "Of 3 predictions judged by an interval at most 0.075 verdicts" in said
    assert "of 1 differences in tables at most 0.05 would be marked" in said
    assert "Of 0 predictions" in expected_errors([], pd.DataFrame({"mark": []}))


def test_no_claim_is_mixed_while_a_seed_of_any_prediction_is_missing() -> None:
    planted = asked(YES, NO, says("worse", "c", by=0.1), labels=("a", "b", "c"))
    for seed in FIRST[:4]:
        planted.record("c", seed, 0.45 + 0.01 * (seed % 2))
    assert [each.verdict for each in only(planted).findings] == [
        "supported",
        "refuted",
        "undecided",
    ]
    assert (only(planted).verdict, only(planted).reason) == ("undecided", "pass 4 of 5")
