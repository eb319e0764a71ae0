"""The findings on the first screen are the decided claims that stand out most, said in words."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.effects import distance, findings, told
from analysis.sentences import plain


def effect(value: float | None, low: float | None, high: float | None, **other: Any) -> Any:
    held = {"shows": "difference", "than": "sinusoidal", "of": ["none"], "metric": "per"}
    numbers = {"effect": value, "interval": [low, high], "n": 5, "shares": None, "at": {}}
    numbers["across"] = {}
    numbers["level"] = 0.995
    return {**held, **numbers, **other}


def claim(question: str, *evidence: Any, verdict: str = "supported") -> Any:
    return {"scope": {"question": question}, "verdict": verdict, "evidence": list(evidence)}


@pytest.mark.parametrize(
    ("each", "far"),
    [
        (effect(0.4, 0.3, 0.5), 4.0),
        (effect(-0.4, -0.5, -0.3), 4.0),
        (effect(0.4, None, None), 0.0),
        (effect(None, None, None), 0.0),
        (effect(4.0, 2.0, 8.0, shows="ratio"), 2.0),
        (effect(0.25, 0.125, 0.5, shows="ratio"), 2.0),
        (effect(0.25, 0.125, 0.5, shows="ratio", than=None), 0.0),
        (effect(2.0, 1.9, 2.1, shows="exponent"), 0.0),
        (effect(0.4, 0.3, 0.5, shares={"none": [0, 5]}), 0.0),
    ],
)
def test_an_effect_is_so_many_half_widths_of_its_interval_away_from_none(
    each: Any, far: float
) -> None:
    assert distance(each) == pytest.approx(far)


def test_the_three_that_stand_out_most_are_decided_and_of_different_questions() -> None:
    large, middle, small = effect(9, 8, 10), effect(5, 4, 6), effect(2, 1, 3)
    decided = [
        claim("a", small, large),
        claim("a", middle),
        claim("b", effect(99, 98, 100), verdict="undecided"),
        claim("c", small, verdict="refuted"),
        claim("d", effect(1, 0.5, 1.5)),
        claim("e", middle),
    ]
    found = findings(decided)
    assert [finding["claim"]["scope"]["question"] for finding in found] == ["a", "e", "c"]
    assert found[0]["each"] is large
    assert found[0]["distance"] == pytest.approx(9)


def test_what_was_measured_is_told_by_metric_with_its_arms_set_apart() -> None:
    metrics = {"per": {"label": "phone error rate", "unit": "edits/phone"}}
    parts = [
        effect(0.4, 0.35, 0.45),
        effect(0.5, 0.45, 0.55, at={"length": 32}),
        effect(-0.4, -0.45, -0.35, metric="wer"),
        effect(1.5, 1.4, 1.6, shows="ratio", metric="step_time"),
        effect(None, None, None, metric="bleu"),
        effect(0.0, None, None, shares={"none": [0, 5], "sinusoidal": [5, 5]}),
        effect(0.02, 0.01, 0.03, shows="growth with each doubling", metric="loss"),
        effect(1.0, None, None, shows="exponent", than=None, metric="bytes", at={"of": "layer"}),
        effect(400, 300, 500, shows="crossing", across={"width": "64"}, at={"batch": 1}),
        effect(400, 300, 500, shows="crossing", across={"width": "128"}, at={"batch": 1}),
    ]
    assert [plain(line) for line in told({"evidence": parts}, metrics)] == [
        "phone error rate: “none” − “sinusoidal” +0.40 edits/phone (99.5 %: 0.35 to 0.45); "
        "“none” − “sinusoidal” at length 32: +0.50 edits/phone (99.5 %: 0.45 to 0.55); "
        "“none” − “sinusoidal” at width 64, batch 1: crossing 400 (99.5 %: 300 to 500); "
        "“none” − “sinusoidal” at width 128, batch 1: crossing 400 (99.5 %: 300 to 500)",
        "wer: “none” − “sinusoidal” −0.40 (99.5 %: −0.45 to −0.35)",
        "step time: “none” over “sinusoidal” 1.50 × (99.5 %: 1.40 to 1.60)",
        "seeds past the threshold: “none” 0 of 5, “sinusoidal” 5 of 5",
        "loss: lead of “none” over “sinusoidal” grows with each doubling by 0.020 "
        "(99.5 %: 0.010 to 0.030)",
        "bytes: “none” of layer: exponent 1.00",
    ]
