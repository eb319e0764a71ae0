"""Differences are paired by seed, and failures stay visible."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd
import pytest

from ablations.store.record import Reading
from analysis import stats
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
    assert (row["n"], row["planned"], row["verdict"]) == (3, 3, "worse")
    assert row["correlation"] > 0.9
    assert row["low"] < 0.41 < row["high"]
    assert (row["mean_n"], row["control_mean"]) == (3, pytest.approx(0.25 + sum(LUCK[:3]) / 3))


def test_an_order_of_seeds_in_the_plan_does_not_matter(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"])
    fill(folder, "sinusoidal", 0.2)
    fill(folder, "none", 0.4)
    before = judged(folder).loc["none", "difference"]
    folder.plan["ablations"]["position"]["cells"].reverse()
    folder.results.write_plan(folder.plan)
    assert judged(folder).loc["none", "difference"] == pytest.approx(before)


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
    assert judged(folder).loc["none", "difference"] == pytest.approx(0.3)


def test_trials_of_different_environments_are_said_to_be_where_they_are_compared(
    folder: Any,
) -> None:
    folder.ablation("width", ["64", "128"], seeds=[0])
    for label, capability in (("64", "AVX2"), ("128", "AVX512")):
        env = {"numerics": f"torch 2.13.0, {capability}, BLAS mkl"}
        folder.record(label, 0, 0.25, env=env)
    folder.ablation("depth", ["64", "2"], seeds=[0])
    folder.record("2", 0, 0.3, env={"numerics": "torch 2.13.0, AVX2, BLAS mkl"})
    notes = dict(
        zip(*(contrasts(load(folder.root))[name] for name in ("label", "note")), strict=True)
    )
    assert notes["128"].startswith(
        "trained in different environments: torch 2.13.0, AVX2, BLAS mkl; "
    )
    assert notes["2"] == ""


def test_a_null_at_the_last_step_is_not_replaced_by_an_earlier_score(folder: Any) -> None:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[0])
    null = Reading("per", "fraction", None, "valid", {"step": 900}, reason="nothing decoded")
    folder.record("sinusoidal", 0, 0.2)
    folder.record("none", 0, 0.5, readings=[null])
    row = judged(folder).loc["none"]
    assert row["n"] == 0
    assert row["note"] == "1 of 1 ok trials have no score that this code has taken"


def test_holm_counts_the_variants_of_one_ablation_and_no_others(folder: Any) -> None:
    labels = ["control", "a", "b"]
    folder.ablation("one", labels)
    folder.ablation("two", ["control", "a"])
    for label, mean in zip(labels, (0.2, 0.25, 0.21), strict=True):
        for seed in range(3):
            folder.record(
                label, seed, mean + LUCK[seed] + 0.002 * (seed if label != "control" else 0)
            )
    frame = contrasts(load(folder.root)).set_index(["ablation", "label"])
    p = frame.loc[("one", "a"), "p"]
    assert frame.loc[("one", "a"), "p_holm"] == pytest.approx(2 * p)
    assert frame.loc[("two", "a"), "p_holm"] == pytest.approx(p)


def test_what_could_have_been_shown_is_judged_by_the_strictest_step_of_holm(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post", "none"])
    for label, mean in (("pre", 0.2), ("post", 0.3), ("none", 0.4)):
        for seed in range(3):
            folder.record(label, seed, mean + (LUCK[seed] if label == "post" else 0.0))
    row = judged(folder).loc["post"]
    assert row["detectable"] == pytest.approx(row["sd"] * stats.detectable(3, 0.025))


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
    assert "1 of 5 diverged" in row["verdict"]


def test_survivors_of_a_divergence_cannot_make_a_variant_better(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0, 1, 2, 3])
    for seed in range(3):
        folder.record("pre", seed, 0.5 + LUCK[seed])
        folder.record("post", seed, 0.2 + LUCK[seed] + 0.001 * seed)
    folder.record("pre", 3, 0.5)
    assert judged(folder).loc["post", "verdict"] == "better"
    folder.record("post", 3, status="diverged")
    assert judged(folder).loc["post", "verdict"] == "1 of 4 diverged"
    folder.record("post", 3, status="killed")
    assert judged(folder).loc["post", "verdict"] == "better, 1 of 4 killed"


def test_all_failed_is_a_verdict_without_a_difference(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "pre", 0.2)
    for seed in range(3):
        folder.record("post", seed, status="diverged")
    row = judged(folder).loc["post"]
    assert row["verdict"] == "3 of 3 diverged"
    assert math.isnan(row["difference"])


def test_a_stuck_control_leaves_the_question_undecided(folder: Any) -> None:
    folder.ablation("depth", ["deep", "shallow"])
    fill(folder, "deep", 0.9)
    fill(folder, "shallow", 0.3)
    for seed in range(2):
        folder.record("deep", seed, 0.9, status="stuck")
    assert judged(folder).loc["shallow", "verdict"] == "undecided: undertrained"


def test_a_control_of_which_few_seeds_are_stuck_is_judged_by_the_others(folder: Any) -> None:
    """As claims are: only where most are stuck, the budget cannot tell."""
    folder.ablation("depth", ["deep", "shallow"], seeds=list(range(5)))
    fill(folder, "deep", 0.4, range(5))
    for seed in range(5):
        folder.record("shallow", seed, 0.3 + LUCK[seed] + 0.002 * seed)
    folder.record("deep", 1, 0.9, status="stuck")
    row = judged(folder).loc["shallow"]
    assert (row["verdict"], row["n"]) == ("better, control: 1 of 5 stuck", 4)


def test_a_control_that_broke_down_is_said_beside_the_verdict(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "post", 0.2)
    for seed in range(3):
        folder.record("pre", seed, status="diverged")
    assert judged(folder).loc["post", "verdict"] == "control: 3 of 3 diverged"


def test_one_seed_gives_a_number_and_no_verdict(folder: Any) -> None:
    folder.ablation("width", ["64", "128"], seeds=[7])
    folder.record("64", 7, 0.25)
    folder.record("128", 7, 0.20)
    row = judged(folder).loc["128"]
    assert row["difference"] == pytest.approx(-0.05)
    assert row["verdict"] == "no verdict below n = 3"
    assert math.isnan(row["low"])


def test_nothing_run_is_not_run(folder: Any) -> None:
    folder.ablation("width", ["64", "128"])
    assert judged(folder).loc["128", "verdict"] == "not run"
    fill(folder, "64", 0.2)
    assert judged(folder).loc["128", "verdict"] == "not run"


def test_a_variant_that_changes_nothing_says_so(folder: Any) -> None:
    folder.ablation("norm", ["pre", "also pre"])
    fill(folder, "pre", 0.2)
    fill(folder, "also pre", 0.2)
    row = judged(folder).loc["also pre"]
    assert row["verdict"] == "not resolved"
    assert "no difference in every seed" in row["note"]


def test_scores_in_different_units_are_not_subtracted(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"])
    fill(folder, "pre", 0.2)
    fill(folder, "post", 20.0, unit="percent")
    row = judged(folder).loc["post"]
    assert row["n"] == 0
    assert "units differ" in row["note"]


def test_unequal_training_is_noted(folder: Any) -> None:
    folder.ablation("norm", ["pre", "post"], seeds=[0])
    late = Reading("per", "fraction", 0.1, "valid", {"step": 900})
    folder.record("pre", 0, 0.2)
    folder.record("post", 0, 0.2, readings=[late])
    assert "different numbers of steps" in judged(folder).loc["post", "note"]
