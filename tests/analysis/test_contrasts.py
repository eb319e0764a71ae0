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


def two(folder: Any, baseline: Any, variant: Any, planned: int = 3, **changes: Any) -> Any:
    """The contrast of `post` with `pre`: of each side a mean, or for each seed a score, how it
    failed, or None where it was not run."""
    folder.ablation("norm", ["pre", "post"], seeds=range(planned), **changes)
    trained = {"trained": changes.get("trained", True)}
    for label, side in (("pre", baseline), ("post", variant)):
        jitter = [0.001 * (-1) ** seed * (label == "post") for seed in range(planned)]
        if isinstance(side, float):
            side = [side + LUCK[s] + jitter[s] for s in range(planned)]
        for seed, each in enumerate(side):
            if isinstance(each, str):
                folder.record(label, seed, 99.0, status=each)
            elif each is not None:
                folder.record(label, seed, each, **trained)
    return judged(folder).loc["post"]


def test_the_difference_is_taken_seed_by_seed_at_the_last_step(folder: Any) -> None:
    row = two(folder, [0.25, 0.28, 0.23], [0.65, 0.69, 0.65])
    assert row["differences"] == pytest.approx([0.40, 0.41, 0.42])
    assert (row["n"], row["planned"], row["mark"]) == (3, 3, "worse")
    half = 4.302653 * 0.01 / math.sqrt(3)  # t of 2 degrees of freedom
    ends = row["difference"], row["low"], row["high"]
    assert ends == pytest.approx((0.41, 0.41 - half, 0.41 + half))
    assert (row["mean_n"], row["baseline_mean"]) == (3, pytest.approx(0.76 / 3))


def test_pairs_never_mix_levels_of_a_factor(folder: Any) -> None:
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
    for label, score, more in (("sinusoidal", 0.2, longer), ("none", 0.5, longer),
                               ("silent", 0.5, null)):  # fmt: skip
        folder.record(label, 0, score, measurements=[more])
    found = judged(folder)
    assert tuple(found.loc["none", ["difference", "mean"]]) == pytest.approx((0.3, 0.5))
    assert found.loc["silent", "n"] == 0
    assert found.loc["silent", "note"] == "1 of 1 ok trials have no score from this code"


STUCK = [0.4, "stuck", 0.38, 0.45, 0.41]
MARKS: dict[str, tuple[Any, Any, dict[str, Any], dict[str, Any]]] = {
    "a failed seed is counted and not averaged": (
        0.2, [0.3, 0.331, 0.28, "diverged", "stuck"], {"planned": 5},
        {"n": 3, "failures": "1 of 5 diverged, 1 of 5 stuck"}),
    "a variant that failed in every seed": (
        0.2, ["diverged"] * 3, {}, {"mark": "failed", "n": 0, "failures": "3 of 3 diverged"}),
    "a baseline that failed in every seed": (
        ["diverged"] * 3, 0.2, {},
        {"mark": "failed", "n": 0, "baseline_failures": "3 of 3 diverged"}),
    "a baseline of which few seeds are stuck": (
        STUCK, 0.3, {"planned": 5},
        {"mark": "better", "n": 4, "baseline_failures": "1 of 5 stuck"}),
    "a baseline of which most seeds are stuck": (
        [*STUCK[:2], "stuck", "stuck", 0.41], 0.3, {"planned": 5},
        {"mark": "failed", "note": "the baseline is undertrained: 3 of 5 stuck"}),
    "one seed": (0.25, 0.20, {"planned": 1}, {"mark": "few seeds", "n": 1}),
    "two seeds": (0.25, 0.20, {"planned": 2}, {"mark": "few seeds", "n": 2}),
    "a seed that is still to be run": (0.2, [0.5, 0.531, 0.48, None], {"planned": 4},
                                       {"mark": "unfinished", "n": 3}),
    "nothing run": ([], [], {}, {"mark": "not run"}),
    "only the baseline run": (0.2, [], {}, {"mark": "not run"}),
    "the same in every seed": (
        [0.2, 0.3, 0.4], [0.2, 0.3, 0.4], {},
        {"mark": "not resolved",
         "note": "no difference in every seed, so its spread cannot be estimated"}),
    "more, where more is better": (
        0.5, 0.7, {"metric": {**PER, "better": "higher"}}, {"mark": "better"}),
    "less, where more is better": (
        0.5, 0.3, {"metric": {**PER, "better": "higher"}}, {"mark": "worse"}),
    "what nobody trained": (0.2, 0.4, {"trained": False}, {"mark": "higher"}),
}  # fmt: skip


@pytest.mark.parametrize("case", MARKS)
def test_a_mark_and_what_is_said_of(folder: Any, case: str) -> None:
    baseline, variant, changes, expected = MARKS[case]
    if changes.get("planned") == 5 and isinstance(baseline, float):
        baseline = [baseline + luck for luck in LUCK]
    row = two(folder, baseline, variant, **changes)
    assert {name: row[name] for name in expected} == expected
    if row["n"] == 0:
        assert math.isnan(row["difference"])
    if row["n"] < 3:
        assert math.isnan(row["low"])


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
    metric = {**PER, "matters": matters}
    assert two(folder, 0.2, 0.2 + shift, planned=5, metric=metric)["mark"] == expected


@pytest.mark.parametrize(
    ("lost", "shift", "mark"),
    [("post", -0.3, "better"), ("post", 0.0, "tie"), ("pre", 0.3, "worse")],
)
def test_survivors_of_a_divergence_decide_nothing(
    folder: Any, lost: str, shift: float, mark: str
) -> None:
    two(folder, 0.5, 0.5 + shift, planned=5, metric={**PER, "matters": 0.1})
    for status, expected in (("killed", mark), ("diverged", "failed")):
        folder.record(lost, 4, status=status)
        assert judged(folder).loc["post", "mark"] == expected


def test_scores_in_different_units_are_not_subtracted(folder: Any) -> None:
    two(folder, 0.2, [])
    for seed in range(3):
        folder.record("post", seed, 20.0, unit="percent")
    row = judged(folder).loc["post"]
    assert row["n"] == 0
    assert "units differ" in row["note"]


def test_where_items_are_stored_the_interval_counts_them(folder: Any) -> None:
    """It is wider than over the seeds alone: other words would give another difference."""
    folder.ablation("norm", ["pre", "post"], seeds=range(5), metric={**PER, "split": "test"})
    found = {}
    for are_stored in (False, True):
        for seed in range(5):
            for label, extra in (("pre", 0.0), ("post", 1.0)):
                more = extra * (1 + seed / 50)
                items = [float((i * 7 + seed) % 3 + more * (i % 4)) for i in range(40)]
                score = Measurement("per", "fraction", sum(items) / 40, "test", {"step": 9})
                stored = {"per_example": {"per": items}} if are_stored else {}
                folder.record(label, seed, measurements=[score], **stored)
        row = judged(folder).loc["post"]
        found[are_stored] = (row["difference"], row["high"] - row["low"])
    assert found[True][0] == pytest.approx(found[False][0])
    assert found[True][1] > 1.5 * found[False][1]
