"""Verdicts from readings alone: what each word makes of seeds that are given, and when to wait."""

from __future__ import annotations

import random
from typing import Any

import pytest

from analysis.load import load
from analysis.verdicts import Verdict, verdicts

SEEDS = list(range(200, 210))


def question(
    folder: Any, *predicts: Any, labels: tuple[str, ...] = ("a", "b"), **more: Any
) -> None:
    claim = {"id": "x.y", "statement": "It is.", "source": "them", "predicts": list(predicts)}
    folder.ablation("q", list(labels), claims=[claim], **{"seeds": SEEDS, **more})


def said(folder: Any, word: str, *of: str, **fields: Any) -> dict[str, Any]:
    return folder.claimed("x.y", word, *of, **fields)["predicts"][0]


def fill(folder: Any, seeds: Any = SEEDS, **means: float) -> None:
    """Scores around these means, with luck that both arms share and a little of their own."""
    draw = random.Random(7)
    for seed in seeds:
        luck = draw.gauss(0, 0.05)
        for label, mean in means.items():
            folder.record(label, seed, mean + luck + draw.gauss(0, 0.004))


def only(folder: Any) -> Verdict:
    (found,) = verdicts(load(folder.root))
    return found


@pytest.mark.parametrize(
    ("word", "fields", "b", "expected"),
    [
        ("worse", {"by": 0.1}, 0.45, "supported"),
        ("worse", {"by": 0.1}, 0.30, "refuted"),
        ("better", {"by": 0.1}, 0.10, "supported"),
        ("better", {}, 0.45, "refuted"),
        ("equal", {"within": 0.02}, 0.251, "supported"),
        ("equal", {"within": 0.02}, 0.30, "refuted"),
        ("worst", {}, 0.45, "supported"),
        ("worst", {}, 0.10, "refuted"),
    ],
)
def test_a_large_effect_is_decided_by_its_first_seeds(
    folder: Any, word: str, fields: dict[str, Any], b: float, expected: str
) -> None:
    than = {} if word == "worst" else {"than": "a"}
    question(folder, said(folder, word, "b", **than, **fields))
    fill(folder, a=0.25, b=b)
    found = only(folder)
    assert (found.verdict, found.reason) == (expected, "")
    assert found.n in (3, 5)
    assert found.scope["task"] == "g2p"


def test_an_order_is_supported_pair_by_pair_and_refuted_by_any_reverse(folder: Any) -> None:
    labels = ("a", "b", "c")
    question(folder, said(folder, "ordered", *labels), labels=labels)
    fill(folder, a=0.2, b=0.3, c=0.4)
    assert only(folder).verdict == "supported"
    question(folder, said(folder, "ordered", "a", "c", "b"), labels=labels)
    assert only(folder).verdict == "refuted"


def test_seeds_beyond_the_look_that_decides_change_nothing(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    fill(folder, SEEDS[:3], a=0.25, b=0.6)
    early = only(folder)
    assert (early.verdict, early.n) == ("supported", 3)
    for seed in SEEDS[3:]:
        folder.record("a", seed, 0.9)
        folder.record("b", seed, 0.1)
    late = only(folder)
    assert (late.verdict, late.n, late.evidence) == (early.verdict, early.n, early.evidence)


def test_a_gap_in_the_planned_seeds_ends_the_prefix(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    fill(folder, [200, 201, 203, 204, 205], a=0.25, b=0.6)
    found = only(folder)
    assert (found.verdict, found.n) == ("undecided", 2)
    assert found.reason == "2 seeds; 3 are needed for a look"


def test_what_has_no_seed_is_not_run(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    assert only(folder).verdict == "not run"


def test_noise_is_undecided_and_says_what_it_would_take(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    draw = random.Random(3)
    for seed in SEEDS:
        folder.record("a", seed, 0.5 + draw.gauss(0, 0.1))
        folder.record("b", seed, 0.52 + draw.gauss(0, 0.1))
    found = only(folder)
    assert (found.verdict, found.n) == ("undecided", 10)
    assert found.needed is not None
    assert found.needed[0] > 10


def test_one_against_nothing_in_every_seed_is_decided_as_a_basin(folder: Any) -> None:
    """As a level its spread is nothing and cannot be judged by; the registered kind decides."""
    past = said(folder, "fails", "b", than="a", threshold=0.5)
    question(folder, past)
    for seed in SEEDS:
        folder.record("a", seed, 0.0)
        folder.record("b", seed, 1.0)
    found = only(folder)
    assert (found.verdict, found.n) == ("supported", 5)
    assert found.evidence[0]["shares"] == {"b": [0, 5], "a": [5, 5]}


def test_failed_seeds_count_for_a_basin_and_make_a_level_untellable(folder: Any) -> None:
    for word, fields, expected in (
        ("fails", {}, "supported"),
        ("worse", {"by": 0.1}, "undecided"),
    ):
        question(folder, said(folder, word, "b", than="a", **fields))
        for seed in SEEDS:
            folder.record("a", seed, 0.2 + 0.001 * (seed % 3))
            folder.record("b", seed, status="diverged", reason="loss nan at step 3")
        found = only(folder)
        assert found.verdict == expected
    assert "a seed failed" in found.reason


def test_a_control_that_is_stuck_or_trivial_decides_nothing(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    fill(folder, a=0.25, b=0.6)
    assert only(folder).verdict == "supported"
    for seed in SEEDS:
        folder.record("a", seed, 0.25, status="stuck", reason="no better than trivial")
    assert only(folder).reason.startswith("undertrained: 10 of 10 of its controls are stuck")


def test_a_lead_that_grows_along_a_factor(folder: Any) -> None:
    draw = random.Random(5)
    crossings = [{"length": str(n)} for n in (5, 10, 20)]
    growing = said(folder, "grows", "a", than="b", along="length")
    question(folder, growing, crossings=crossings)
    for seed in SEEDS:
        for index, across in enumerate(crossings):
            folder.record("a", seed, 0.1 + draw.gauss(0, 0.002), across=across)
            folder.record("b", seed, 0.1 + 0.1 * index + draw.gauss(0, 0.002), across=across)
    assert only(folder).verdict == "supported"


def test_a_claim_of_several_predictions_needs_them_all(folder: Any) -> None:
    labels = ("a", "b", "c")
    both = [said(folder, "worse", other, than="a", by=0.05) for other in ("b", "c")]
    question(folder, *both, labels=labels)
    fill(folder, a=0.2, b=0.4, c=0.4)
    assert only(folder).verdict == "supported"
    fill(folder, a=0.2, b=0.4, c=0.2)
    assert only(folder).verdict == "refuted"


def test_times_of_one_process_decide_nothing(folder: Any) -> None:
    timed = said(folder, "ratio", "b", than="a", metric="step_time", between=(2.0, None))
    question(folder, timed)
    fill(folder, a=0.2, b=0.2)
    assert only(folder).reason == "timed in one process; three are needed"
