"""Verdicts from readings alone: what each word makes of seeds that are given, and when to wait."""

from __future__ import annotations

import random
from typing import Any

import pytest
from speed_lab import METRICS

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
        ("better", {"by": -0.1}, 0.30, "supported"),  # worse, by less than that
        ("better", {"by": -0.1}, 0.45, "refuted"),
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


@pytest.mark.parametrize(
    ("ratio", "processes", "verdict", "reason"),
    [
        (3.0, 5, "supported", ""),
        (1.1, 5, "refuted", ""),
        (2.01, 5, "undecided", "too noisy"),
        (3.0, 2, "undecided", "timed in 2 processes; 3 are needed"),
    ],
)
def test_times_are_judged_by_their_processes(
    folder: Any, ratio: float, processes: int, verdict: str, reason: str
) -> None:
    timed = said(folder, "ratio", "b", than="a", metric="step_time", between=(2.0, None))
    question(folder, timed, metrics=METRICS)
    for label in "ab":
        took = folder.timing(ratio if label == "b" else 1.0, processes=processes)
        folder.record(label, SEEDS[0], status="stuck", readings=took)  # training says nothing here
    found = only(folder)
    assert (found.verdict, found.asks) == (verdict, {})
    assert found.reason.startswith(reason)
    assert found.n == processes
    assert found.evidence[0]["effect"] == pytest.approx(ratio, rel=0.05)


# Seeds that were looked at.


@pytest.mark.parametrize("seeds", [range(10), range(100, 110), range(300, 310)])
def test_seeds_that_chose_something_or_that_nobody_planned_decide_nothing(
    folder: Any, seeds: range
) -> None:
    question(folder, said(folder, "worse", "b", than="a"), seeds=list(seeds))
    fill(folder, seeds, a=0.25, b=0.6)
    found = only(folder)
    assert (found.verdict, found.n) == ("not run", 0)
    assert "no seed that decides" in found.reason


# Tuned arms.


def tuned_question(folder: Any, *predicts: Any) -> None:
    """Two tuned arms; of b another setting was as good, and has its trials too."""
    question(folder, *predicts, arms="tuned")
    entry = folder.plan["ablations"]["q"]
    entry["cells"] += [
        {
            **cell,
            "role": "runner-up",
            "trial": folder.trial("b'", cell["seed"]),
            "settings": folder.described("b'", cell["seed"]).settings,
        }
        for cell in entry["cells"]
        if cell["label"] == "b"
    ]
    folder.results.write_plan(folder.plan)


@pytest.mark.parametrize(
    ("other", "verdict"), [(0.45, "supported"), (0.20, "undecided"), (0.251, "undecided")]
)
def test_a_verdict_that_hangs_on_the_choice_of_a_setting_is_none(
    folder: Any, other: float, verdict: str
) -> None:
    tuned_question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    fill(folder, **{"a": 0.25, "b": 0.4, "b'": other})
    found = only(folder)
    assert found.verdict == verdict
    assert found.reason.startswith("tuning: another setting of b") == (verdict == "undecided")


def test_a_runner_up_that_has_not_run_leaves_it_open(folder: Any) -> None:
    tuned_question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    fill(folder, a=0.25, b=0.4)
    assert only(folder).reason.startswith("tuning")


def test_a_claim_of_tuned_arms_is_not_decided_by_fixed_ones(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    fill(folder, a=0.25, b=0.6)
    found = only(folder)
    assert (found.verdict, found.asks) == ("not run", {})
    assert "--tune" in found.reason


def test_claims_of_the_tables_beside_it_count_in_its_family(folder: Any) -> None:
    """Nine more claims of the question stand in another table: p is ten times as large."""
    p = []
    for declared in (1, 10):
        question(folder, said(folder, "worse", "b", than="a"), declared=declared)
        fill(folder, SEEDS[:3], a=0.25, b=0.6)
        p.append(only(folder).p)
    assert p[1] == pytest.approx(10 * p[0])


# Steps to reach a level of validation loss.


def curve(folder: Any, label: str, seed: int, *losses: float) -> None:
    from ablations.store.record import Reading

    steps = [
        Reading("loss", "nats/token", loss, "valid", {"step": 100 * (i + 1)})
        for i, loss in enumerate(losses)
    ]
    folder.record(label, seed, 0.2 + 0.001 * (seed % 3), readings=steps)


def test_fewer_steps_to_a_level_are_told_by_ranks_and_censored_seeds_count(folder: Any) -> None:
    sooner = said(folder, "better", "b", than="a", metric="steps_to_reach", at={"loss": 1.0})
    question(folder, sooner)
    for seed in SEEDS:
        curve(folder, "a", seed, 3.0, 2.0, 1.1)  # never arrives
        curve(folder, "b", seed, 2.0, 0.9, 0.8)
    found = only(folder)
    assert (found.verdict, found.n) == ("supported", 10)  # 2^-5 is too much for five seeds
    for seed in SEEDS[:5]:
        curve(folder, "b", seed, 2.0, 1.9, 1.8)  # ties
    assert only(folder).verdict == "undecided"


# An equality of a moment.


@pytest.mark.parametrize(("late", "verdict"), [(1.0, "supported"), (1.2, "undecided")])
def test_arms_that_still_move_beside_each_other_are_not_called_equal(
    folder: Any, late: float, verdict: str
) -> None:
    """Half of the margin of .02 is 5 % of a score of .2, and so of a loss of 1."""
    question(folder, said(folder, "equal", "b", than="a", within=0.02))
    draw = random.Random(2)
    for seed in SEEDS:
        curve(folder, "a", seed, 1.1, 1.0, 1.0)
        curve(folder, "b", seed, 1.1, late, 1.0)
        for label in "ab":
            folder.record(
                label,
                seed,
                0.2 + draw.gauss(0, 0.001),
                readings=folder.results.read(folder.trial(label, seed)).readings[3:],
            )
    found = only(folder)
    assert found.verdict == verdict
    assert found.reason.startswith("still moving") == (verdict == "undecided")


# Luck of the test items.


def test_luck_of_the_items_is_in_the_interval(folder: Any) -> None:
    """Every seed agrees on which few items differ: other items might not."""
    from ablations.store.record import Reading

    wide, luck = [], []
    for spread in (1, 50):
        better = said(folder, "better", "b", than="a", split="test")
        question(folder, better, metric={"name": "per", "split": "test", "better": "lower",
                                         "label": "phone error rate"})  # fmt: skip
        draw = random.Random(1)
        for seed in SEEDS[:3]:
            for label, errors in (("a", 1.0), ("b", 0.5)):
                jitter = draw.gauss(0, 0.01)
                items = [errors * spread if i % spread == 0 else 0.0 for i in range(100)]
                items = [each * (1 + jitter) for each in items]
                score = sum(items) / len(items)
                reading = Reading("per", "edits/phone", score, "test", {"step": 300})
                folder.record(label, seed, readings=[reading], items={"per": items})
        found = only(folder).evidence[0]
        low, high = found["interval"]
        wide.append(high - low)
        luck.append(found["of_items"])
    assert wide[1] > 5 * wide[0]
    assert luck[0] < 0.1 < 0.9 < luck[1]


def test_a_changed_regime_is_decided_by_its_own_ten_seeds(folder: Any) -> None:
    for seeds, word in ((range(200, 210), "not run"), (range(210, 220), "supported")):
        question(folder, said(folder, "worse", "b", than="a"), seeds=list(seeds), seeds_from=210)
        fill(folder, seeds, a=0.25, b=0.6)
        assert only(folder).verdict == word


# Found in review.


def test_only_the_first_seeds_count_whichever_others_are_stored(folder: Any) -> None:
    picked = [203, 206, 209]
    question(folder, said(folder, "worse", "b", than="a"), seeds=picked)
    fill(folder, picked, a=0.25, b=0.6)
    assert only(folder).verdict == "not run"


def test_a_runner_up_with_few_seeds_is_not_filled_up_with_those_of_the_choice(folder: Any) -> None:
    tuned_question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    entry = folder.plan["ablations"]["q"]
    entry["cells"] = [c for c in entry["cells"] if c["role"] == "report" or c["seed"] < 203]
    folder.results.write_plan(folder.plan)
    draw = random.Random(1)
    for seed in SEEDS:
        luck = draw.gauss(0, 0.1)
        folder.record("a", seed, 0.25 + luck)
        folder.record("b", seed, 0.4 + luck + draw.gauss(0, 0.09))
        folder.record("b'", seed, 0.3 + luck + draw.gauss(0, 0.09))
    found = only(folder)
    assert (found.verdict, found.reason[:6]) == ("undecided", "tuning")


def test_an_effect_on_the_wrong_side_is_within_reach(folder: Any) -> None:
    """A claim of worse by .1 whose variant is better by .1 needs few seeds to be refuted."""
    question(folder, said(folder, "worse", "b", than="a", by=0.1, because="it is much"))
    draw = random.Random(5)
    for seed in SEEDS[:3]:
        folder.record("a", seed, 0.5 + draw.gauss(0, 0.05))
        folder.record("b", seed, 0.4 + draw.gauss(0, 0.05))
    found = only(folder)
    assert (found.verdict, found.asks) == ("undecided", {"b": 5, "a": 5})


def test_what_hangs_on_tuning_asks_until_the_last_look(folder: Any) -> None:
    tuned_question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    draw = random.Random(1)
    for count, asked in ((3, 5), (5, 10), (10, None)):
        for seed in SEEDS[:count]:
            luck = draw.gauss(0, 0.1)
            folder.record("a", seed, 0.25 + luck)
            folder.record("b", seed, 0.5 + luck + draw.gauss(0, 0.001))
            folder.record("b'", seed, 0.3 + luck + draw.gauss(0, 0.2))
        found = only(folder)
        assert (found.verdict, found.reason[:6]) == ("undecided", "tuning")
        assert found.asks == ({} if asked is None else {"b": asked, "a": asked})


def test_a_runner_up_that_says_the_opposite_needs_no_more_seeds(folder: Any) -> None:
    tuned_question(folder, said(folder, "worse", "b", than="a", arms="tuned"))
    fill(folder, SEEDS[:3], **{"a": 0.25, "b": 0.5, "b'": 0.1})
    found = only(folder)
    assert found.reason.endswith("would be decided otherwise")
    assert found.asks == {}


def test_a_failed_seed_asks_for_no_more_of_them(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    fill(folder, SEEDS[:3], a=0.25, b=0.6)
    folder.record("b", 200, status="diverged", reason="loss nan at step 3")
    found = only(folder)
    assert found.reason.startswith("a seed failed")
    assert found.asks == {}


def test_the_same_difference_in_every_seed_is_told_as_such(folder: Any) -> None:
    question(folder, said(folder, "worse", "b", than="a"))
    for seed in SEEDS[:3]:
        folder.record("a", seed, 0.25)
        folder.record("b", seed, 0.5)
    assert only(folder).reason == "the same in every seed, so its spread cannot be told"
