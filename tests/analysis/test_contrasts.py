"""Differences are paired by seed, and failures stay visible."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from ablations.store.record import Measurement
from analysis.contrasts import Evidence
from analysis.load import load

LUCK = [0.00, 0.03, -0.02, 0.05, 0.01]
PER = {"name": "per", "split": "valid", "better": "lower", "title": "errors"}


def judged(folder: Any) -> pd.DataFrame:
    return Evidence.of(load(folder.root)).contrasts.set_index("name")


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
    assert (row["mean_n"], row["baseline_mean"]) == (3, pytest.approx(0.25 + sum(LUCK[:3]) / 3))


def test_pairs_never_cross_a_crossing(folder: Any) -> None:
    sizes = [{"data": "3k"}, {"data": "30k"}]
    folder.ablation("heads", ["8", "1"], crossings=sizes)
    for across, base in zip(sizes, (0.5, 0.2), strict=True):
        for seed in range(3):
            folder.record("8", seed, base + LUCK[seed], factors=across)
            folder.record("1", seed, base + 0.1 + LUCK[seed] + 0.001 * seed, factors=across)
    found = judged(folder)
    assert list(found.index) == ["1 [data=3k]", "1 [data=30k]"]
    assert list(found["difference"]) == pytest.approx([0.101, 0.101])


def test_only_the_last_step_at_the_own_length_counts_also_where_it_has_no_number(
    folder: Any,
) -> None:
    folder.ablation("position", ["sinusoidal", "none", "silent"], seeds=[0])
    last: Any = ("valid", {"step": 900})
    longer = Measurement("per", "fraction", 9.0, "valid", {"step": 900, "length": 64})
    null = Measurement("per", "fraction", None, *last, reason="nothing decoded")
    for label, score, more in (
        ("sinusoidal", 0.2, longer),
        ("none", 0.5, longer),
        ("silent", 0.5, null),
    ):
        folder.record(label, 0, score, measurements=[more])
    found = judged(folder)
    assert tuple(found.loc["none", ["difference", "mean"]]) == pytest.approx((0.3, 0.5))
    assert found.loc["silent", "n"] == 0
    assert found.loc["silent", "note"] == "1 of 1 ok trials have no score from this code"


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


@pytest.mark.parametrize(
    ("lost", "shift", "mark"),
    [("post", -0.3, "better"), ("post", 0.0, "tie"), ("pre", 0.3, "worse")],
)
def test_survivors_of_a_divergence_decide_nothing(
    folder: Any, lost: str, shift: float, mark: str
) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric={**PER, "matters": 0.1})
    for seed in range(5):
        folder.record("pre", seed, 0.5 + LUCK[seed])
        folder.record("post", seed, 0.5 + shift + LUCK[seed] + 0.001 * (-1) ** seed)
    for status, expected in (("killed", mark), ("diverged", "failed")):
        folder.record(lost, 4, status=status)
        assert judged(folder).loc["post", "mark"] == expected


@pytest.mark.parametrize(("lost", "told"), [("post", "failures"), ("pre", "baseline_failures")])
def test_where_one_side_failed_in_every_seed_there_is_a_mark_and_no_difference(
    folder: Any, lost: str, told: str
) -> None:
    folder.ablation("norm", ["pre", "post"])
    for label in ("pre", "post"):
        fill(folder, label, 0.2, status="diverged" if label == lost else "ok")
    row = judged(folder).loc["post"]
    assert (row["mark"], row[told]) == ("failed", "3 of 3 diverged")
    assert math.isnan(row["difference"])


def test_a_control_has_failed_where_most_of_its_seeds_are_stuck(folder: Any) -> None:
    """As claims are: where few are, the others judge."""
    folder.ablation("depth", ["deep", "shallow"], seeds=list(range(5)))
    fill(folder, "deep", 0.4, range(5))
    for seed in range(5):
        folder.record("shallow", seed, 0.3 + LUCK[seed] + 0.002 * seed)
    folder.record("deep", 1, 0.9, status="stuck")
    row = judged(folder).loc["shallow"]
    assert (row["mark"], row["baseline_failures"], row["n"]) == ("better", "1 of 5 stuck", 4)
    assert row["differences"] == pytest.approx([-0.1, -0.096, -0.095, -0.092])
    for seed in (2, 3):
        folder.record("deep", seed, 0.9, status="stuck")
    row = judged(folder).loc["shallow"]
    assert (row["mark"], row["note"]) == ("failed", "the baseline is undertrained: 3 of 5 stuck")


@pytest.mark.parametrize("seeds", [[0], [0, 1]], ids=len)
def test_fewer_than_three_seeds_give_a_number_and_no_verdict(folder: Any, seeds: list[int]) -> None:
    folder.ablation("width", ["64", "128"], seeds=seeds)
    for seed in seeds:
        folder.record("64", seed, 0.25)
        folder.record("128", seed, 0.20 + 0.001 * seed)
    row = judged(folder).loc["128"]
    assert row["difference"] == pytest.approx(-0.05, abs=0.001)
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
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric={**PER, "matters": matters})
    for seed in range(5):
        folder.record("pre", seed, 0.2 + LUCK[seed])
        folder.record("post", seed, 0.2 + shift + LUCK[seed] + 0.001 * (-1) ** seed)
    assert judged(folder).loc["post", "mark"] == expected


def test_what_nobody_trained_is_higher_or_lower_not_better(folder: Any) -> None:
    folder.ablation("fresh", ["pre", "post"], trained=False)
    for seed in range(3):
        folder.record("pre", seed, 0.2 + LUCK[seed], trained=False)
        folder.record("post", seed, 0.4 + LUCK[seed] + 0.001 * seed, trained=False)
    assert judged(folder).loc["post", "mark"] == "higher"


def test_where_items_are_stored_the_interval_counts_them(folder: Any) -> None:
    """It is wider than over the seeds alone: other words would give another difference."""
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric={**PER, "split": "test"})
    found = {}
    for are_stored in (False, True):
        for seed in range(5):
            for label, extra in (("pre", 0.0), ("post", 1.0)):
                items = [float((i * 7 + seed) % 3 + extra * (i % 4)) for i in range(40)]
                score = Measurement("per", "fraction", sum(items) / 40, "test", {"step": 9})
                stored = {"per_example": {"per": items}} if are_stored else {}
                folder.record(label, seed, measurements=[score], **stored)
        row = judged(folder).loc["post"]
        found[are_stored] = (row["difference"], row["high"] - row["low"])
    assert found[True][0] == pytest.approx(found[False][0])
    assert found[True][1] > 1.5 * found[False][1] or math.isnan(found[False][1])


def test_where_higher_is_better_more_is_better(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post", "none"], metric={**PER, "better": "higher"})
    for seed in range(3):
        folder.record("pre", seed, 0.5 + LUCK[seed])
        folder.record("post", seed, 0.7 + LUCK[seed] + 0.001 * seed)
        folder.record("none", seed, 0.3 + LUCK[seed] + 0.001 * seed)
    assert dict(judged(folder)["mark"]) == {"post": "better", "none": "worse"}
