"""Differences are paired by seed, and failures stay visible."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from ablations.store.record import Reading
from analysis.contrasts import contrasts
from analysis.load import load

LUCK = [0.00, 0.03, -0.02, 0.05, 0.01]


def judged(folder: Any) -> pd.DataFrame:
    return contrasts(load(folder.root)).set_index("name")


def fill(folder: Any, label: str, mean: float, seeds: range = range(3), **fields: Any) -> None:
    for seed in seeds:
        folder.record(label, seed, mean + LUCK[seed] + 0.001 * (seed % 2), **fields)


def test_the_difference_is_taken_seed_by_seed_at_the_last_step(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"])
    for seed in range(3):
        folder.record("sinusoidal", seed, 0.25 + LUCK[seed])
        folder.record("none", seed, 0.65 + LUCK[seed] + 0.01 * seed)
    row = judged(folder).loc["none"]
    assert row["differences"] == pytest.approx([0.40, 0.41, 0.42])
    assert row["difference"] == pytest.approx(0.41)
    assert (row["n"], row["planned"], row["mark"]) == (3, 3, "worse")
    half = 4.302653 * 0.01 / math.sqrt(3)  # t of 2 degrees of freedom
    assert (row["low"], row["high"]) == pytest.approx((0.41 - half, 0.41 + half))
    assert (row["mean_n"], row["control_mean"]) == (3, pytest.approx(0.25 + sum(LUCK[:3]) / 3))


def test_pairs_never_cross_a_crossing(folder: Any) -> None:
    sizes = [{"data": "3k"}, {"data": "30k"}]
    folder.ablation("heads", ["8", "1"], crossings=sizes)
    for across, base in zip(sizes, (0.5, 0.2), strict=True):
        for seed in range(3):
            folder.record("8", seed, base + LUCK[seed], across=across)
            folder.record("1", seed, base + 0.1 + LUCK[seed] + 0.001 * seed, across=across)
    found = judged(folder)
    assert list(found.index) == ["1 [data=3k]", "1 [data=30k]"]
    assert list(found["difference"]) == pytest.approx([0.101, 0.101])


def test_a_score_at_another_length_is_another_measurement(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[0])
    longer = Reading("per", "fraction", 9.0, "valid", {"step": 900, "length": 64})
    for label, score in (("sinusoidal", 0.2), ("none", 0.5)):
        folder.record(label, 0, score, readings=[longer])
    row = judged(folder).loc["none"]
    assert (row["difference"], row["mean"]) == pytest.approx((0.3, 0.5))


def test_a_null_at_the_last_step_is_not_replaced_by_an_earlier_score(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[0])
    null = Reading("per", "fraction", None, "valid", {"step": 900}, reason="nothing decoded")
    folder.record("sinusoidal", 0, 0.2)
    folder.record("none", 0, 0.5, readings=[null])
    row = judged(folder).loc["none"]
    assert row["n"] == 0
    assert row["note"] == "1 of 1 ok trials have no score that this code has taken"


def test_a_failed_seed_is_counted_and_not_averaged(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3, 4])
    fill(folder, "pre", 0.2, range(5))
    fill(folder, "post", 0.3, range(3))
    folder.record("post", 3, 99.0, status="diverged")
    folder.record("post", 4, 99.0, status="stuck")
    row = judged(folder).loc["post"]
    assert row["n"] == 3
    assert row["difference"] == pytest.approx(0.1)
    assert row["failures"] == "1 of 5 diverged, 1 of 5 stuck"


def test_survivors_of_a_divergence_cannot_make_a_variant_better(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3])
    for seed in range(3):
        folder.record("pre", seed, 0.5 + LUCK[seed])
        folder.record("post", seed, 0.2 + LUCK[seed] + 0.001 * seed)
    folder.record("pre", 3, 0.5)
    assert judged(folder).loc["post", "mark"] == "better"
    folder.record("post", 3, status="diverged")
    assert judged(folder).loc["post", "mark"] == "failed"
    folder.record("post", 3, status="killed")
    assert judged(folder).loc["post", "mark"] == "better"


def test_all_failed_is_a_mark_without_a_difference(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "pre", 0.2)
    for seed in range(3):
        folder.record("post", seed, status="diverged")
    row = judged(folder).loc["post"]
    assert (row["mark"], row["failures"]) == ("failed", "3 of 3 diverged")
    assert math.isnan(row["difference"])


def test_a_control_that_is_mostly_stuck_has_failed(folder: Any) -> None:
    folder.ablation("depth", ["deep", "shallow"])
    fill(folder, "deep", 0.9)
    fill(folder, "shallow", 0.3)
    for seed in range(2):
        folder.record("deep", seed, 0.9, status="stuck")
    row = judged(folder).loc["shallow"]
    assert row["mark"] == "failed"
    assert row["note"] == "the control is undertrained: 2 of 3 stuck"


def test_a_control_of_which_few_seeds_are_stuck_is_judged_by_the_others(folder: Any) -> None:
    """As claims are: only where most are stuck, the budget cannot tell."""
    folder.ablation("depth", ["deep", "shallow"], seeds=list(range(5)))
    fill(folder, "deep", 0.4, range(5))
    for seed in range(5):
        folder.record("shallow", seed, 0.3 + LUCK[seed] + 0.002 * seed)
    folder.record("deep", 1, 0.9, status="stuck")
    row = judged(folder).loc["shallow"]
    assert (row["mark"], row["control_failures"], row["n"]) == ("better", "1 of 5 stuck", 4)
    assert row["differences"] == pytest.approx([-0.1, -0.096, -0.095, -0.092])


def test_a_control_that_broke_down_is_said_beside_the_mark(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "post", 0.2)
    for seed in range(3):
        folder.record("pre", seed, status="diverged")
    row = judged(folder).loc["post"]
    assert (row["mark"], row["control_failures"]) == ("failed", "3 of 3 diverged")


def test_fewer_than_three_seeds_give_a_number_and_no_verdict(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[7])
    folder.record("64", 7, 0.25)
    folder.record("128", 7, 0.20)
    row = judged(folder).loc["128"]
    assert row["difference"] == pytest.approx(-0.05)
    assert row["mark"] == "few seeds"
    assert math.isnan(row["low"])


def test_nothing_run_is_not_run(folder: Any) -> None:
    folder.ablation("width", ["64", "128"])
    assert judged(folder).loc["128", "mark"] == "not run"
    fill(folder, "64", 0.2)
    assert judged(folder).loc["128", "mark"] == "not run"


def test_a_variant_that_changes_nothing_says_so(folder: Any) -> None:
    folder.ablation("norm", ["pre", "also pre"])
    fill(folder, "pre", 0.2)
    fill(folder, "also pre", 0.2)
    row = judged(folder).loc["also pre"]
    assert row["mark"] == "not resolved"
    assert "no difference in every seed" in row["note"]


def test_scores_in_different_units_are_not_subtracted(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "pre", 0.2)
    fill(folder, "post", 20.0, unit="percent")
    row = judged(folder).loc["post"]
    assert row["n"] == 0
    assert "units differ" in row["note"]


@pytest.mark.parametrize(
    ("shift", "matters", "expected"),
    [
        (0.0, 0.01, "tie"),  # the interval lies within what matters
        (0.0, 0.001, "not resolved"),  # wider than what matters
        (0.0, None, "not resolved"),  # nothing is registered
        (0.001, 0.002, "not resolved"),  # it reaches past what matters on one side
        (-0.0014, 0.002, "not resolved"),  # or on the other
        (0.006, 0.05, "worse"),  # it excludes zero, however little matters
    ],
)
def test_a_tie_lies_within_what_matters(
    folder: Any, shift: float, matters: float | None, expected: str
) -> None:
    per = {"name": "per", "split": "valid", "better": "lower", "label": "errors"}
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric={**per, "matters": matters})
    for seed in range(5):
        folder.record("pre", seed, 0.2 + LUCK[seed])
        folder.record("post", seed, 0.2 + shift + LUCK[seed] + 0.001 * (-1) ** seed)
    assert judged(folder).loc["post", "mark"] == expected


def test_survivors_of_a_divergence_are_no_tie(folder: Any) -> None:
    per = {"name": "per", "split": "valid", "better": "lower", "label": "errors", "matters": 0.1}
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric=per)
    for seed in range(4):
        folder.record("pre", seed, 0.2 + LUCK[seed])
        folder.record("post", seed, 0.2 + LUCK[seed] + 0.001 * (-1) ** seed)
    folder.record("pre", 4, 0.2)
    assert judged(folder).loc["post", "mark"] == "tie"
    folder.record("post", 4, status="diverged")
    assert judged(folder).loc["post", "mark"] == "failed"


def test_what_nobody_trained_is_higher_or_lower_not_better(folder: Any) -> None:
    folder.ablation("fresh", ["pre", "post"], trained=False)
    for seed in range(3):
        folder.record("pre", seed, 0.2 + LUCK[seed], trained=False)
        folder.record("post", seed, 0.4 + LUCK[seed] + 0.001 * seed, trained=False)
    assert judged(folder).loc["post", "mark"] == "higher"


def test_where_items_are_stored_the_interval_counts_them(folder: Any) -> None:
    """It is wider than over the seeds alone: other words would give another difference."""
    per = {"name": "per", "split": "test", "better": "lower", "label": "errors"}
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric=per)
    found = {}
    for are_stored in (False, True):
        for seed in range(5):
            for label, extra in (("pre", 0.0), ("post", 1.0)):
                items = [float((i * 7 + seed) % 3 + extra * (i % 4)) for i in range(40)]
                score = Reading("per", "fraction", sum(items) / 40, "test", {"step": 9})
                stored = {"items": {"per": items}} if are_stored else {}
                folder.record(label, seed, readings=[score], **stored)
        row = judged(folder).loc["post"]
        found[are_stored] = (row["difference"], row["high"] - row["low"])
    assert found[True][0] == pytest.approx(found[False][0])
    assert found[True][1] > 1.5 * found[False][1] or math.isnan(found[False][1])


def test_where_higher_is_better_more_is_better(folder: Any) -> None:
    right = {"name": "per", "split": "valid", "better": "higher", "label": "right"}
    folder.ablation("norm", ["pre", "post", "none"], metric=right)
    for seed in range(3):
        folder.record("pre", seed, 0.5 + LUCK[seed])
        folder.record("post", seed, 0.7 + LUCK[seed] + 0.001 * seed)
        folder.record("none", seed, 0.3 + LUCK[seed] + 0.001 * seed)
    assert dict(judged(folder)["mark"]) == {"post": "better", "none": "worse"}


def test_survivors_of_a_control_that_diverged_cannot_make_a_variant_worse(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=range(5))
    fill(folder, "pre", 0.2, range(4))
    for seed in range(5):
        folder.record("post", seed, 0.5 + LUCK[seed] + 0.002 * seed)
    assert judged(folder).loc["post", "mark"] == "worse"
    folder.record("pre", 4, status="diverged")
    assert judged(folder).loc["post", "mark"] == "failed"


def test_an_interval_is_that_of_the_differences_seed_by_seed(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    for seed, (pre, more) in enumerate([(0.20, 0.40), (0.21, 0.41), (0.19, 0.45)]):
        folder.record("pre", seed, pre)
        folder.record("post", seed, pre + more)
    row = judged(folder).loc["post"]
    half = 4.302653 * math.sqrt(0.0007) / math.sqrt(3)  # 0.0007: variance of .40, .41, .45
    assert (row["low"], row["high"]) == pytest.approx((0.42 - half, 0.42 + half))


def test_two_seeds_are_few(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1])
    for seed in range(2):
        folder.record("pre", seed, 0.2)
        folder.record("post", seed, 0.4 + 0.001 * seed)
    assert judged(folder).loc["post", "mark"] == "few seeds"
