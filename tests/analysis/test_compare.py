"""Two results folders side by side: what changed beyond noise, and what cannot be compared."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from analysis.__main__ import main
from analysis.compare import compare
from analysis.compare.words import lines
from analysis.evidence import gather

LUCK = {200: 0.0, 201: 0.012, 202: -0.02, 203: 0.007}
ENV = {"commit": "1" * 7, "code": {"model/norm.py": "aaa"}, "numerics": "torch 2, AVX512"}
OLD = {"pre": 0.30, "post": 0.40}


def fill(folder: Any, means: dict[str, float], *, shake: float = 0.0, **fields: Any) -> Any:
    """One question whose seeds share their luck; `shake` moves each seed in its own way."""
    seeds = fields.pop("seeds", list(LUCK))
    changes = fields.pop("changes", {})
    folder.ablation("norm", list(means), seeds=seeds, **changes)
    for place, (label, mean) in enumerate(means.items()):
        for seed in seeds:
            own = shake * math.sin(seed * (place + 2))
            luck = LUCK[200 + seed % 4]
            folder.record(
                label, seed, mean + luck * (1 + 0.1 * place) + own, **{"env": ENV, **fields}
            )
    return folder


@pytest.fixture
def two(folder: Any, tmp_path: Path) -> tuple[Any, Any]:
    return folder, type(folder)(tmp_path / "other")


def compared(a: Any, b: Any) -> dict[str, Any]:
    return compare(gather(a.root), gather(b.root))


def arm(document: dict[str, Any], label: str) -> dict[str, Any]:
    (found,) = [each for each in document["arms"] if each["label"] == label]
    return found


def test_a_run_that_is_repeated_exactly_is_identical(two: tuple[Any, Any]) -> None:
    a, b = (fill(folder, OLD) for folder in two)
    document = compared(a, b)
    assert [each["word"] for each in document["arms"]] == ["identical", "identical"]
    assert document["cautions"] == []
    assert "2 arms of 1 question: 2 identical" in lines(document)


def test_a_change_is_tested_seed_by_seed(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), fill(two[1], {"pre": 0.30, "post": 0.45}, shake=0.002)
    document = compared(a, b)
    post = arm(document, "post")
    sides = [
        [folder.results.read(folder.trial("post", seed)).readings[2].value for seed in LUCK]
        for folder in (a, b)
    ]
    test = scipy_stats.ttest_rel(sides[1], sides[0])
    ends = test.confidence_interval(0.95)
    assert (post["a"], post["b"]) == pytest.approx(tuple(map(np.mean, sides)))
    assert post["difference"] == pytest.approx(np.mean(sides[1]) - np.mean(sides[0]))
    assert (post["low"], post["high"], post["p"]) == pytest.approx((*ends, test.pvalue))
    assert post["p_holm"] == pytest.approx(2 * test.pvalue), "two arms are tested"
    assert (post["word"], post["direction"], post["paired"], post["n"]) == (
        *("changed", "worse", True),
        4,
    )
    assert arm(document, "pre")["word"] == "not resolved"
    (told,) = [line for line in lines(document) if "post" in line]
    assert told == (
        "  worse: norm: post: per 0.3997 → 0.4496, by 0.0499 (95 % interval 0.0488 to 0.0509, "
        "paired by seed, n = 4, p after Holm < 0.0001)"
    )


def test_where_more_is_better_a_rise_is_better(two: tuple[Any, Any]) -> None:
    metric = {"name": "per", "split": "valid", "better": "higher", "label": "accuracy"}
    changes = {"metric": metric}
    a = fill(two[0], OLD, changes=changes)
    b = fill(two[1], {"pre": 0.30, "post": 0.45}, shake=0.002, changes=changes)
    assert arm(compared(a, b), "post")["direction"] == "better"


def test_without_shared_seeds_two_samples_are_compared(two: tuple[Any, Any]) -> None:
    a = fill(two[0], OLD)
    b = fill(two[1], {"pre": 0.30, "post": 0.60}, seeds=[300, 301, 302, 303])
    post = arm(compared(a, b), "post")
    ones = [0.40 + 1.1 * luck for luck in LUCK.values()]
    others = [0.60 + 1.1 * luck for luck in LUCK.values()]
    test = scipy_stats.ttest_ind(others, ones, equal_var=False)
    assert post["p"] == pytest.approx(test.pvalue)
    assert (post["word"], post["paired"]) == ("changed", False)


def test_a_control_that_tables_share_counts_once(two: tuple[Any, Any]) -> None:
    for folder, shake in zip(two, (0.0, 0.002), strict=True):
        fill(folder, OLD, shake=shake)
        folder.ablation("again", ["pre", "post"], seeds=list(LUCK))
    document = compared(*two)
    assert len(document["arms"]) == 4
    for each in document["arms"]:
        assert each["p_holm"] <= min(1.0, 2 * each["p"]) + 1e-12


def test_fewer_than_three_seeds_decide_nothing(two: tuple[Any, Any]) -> None:
    a = fill(two[0], OLD, seeds=[200, 201])
    b = fill(two[1], {"pre": 0.3, "post": 0.9}, seeds=[200, 201])
    assert arm(compared(a, b), "post")["word"] == "no verdict below n = 3"


OTHERWISE = {
    "code": {"env": {**ENV, "code": {"model/norm.py": "bbb"}}},
    "numerics": {"env": {**ENV, "numerics": "torch 3, NEON"}},
    "data": {"data": {"sha256": "f" * 64, "files": []}},
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_what_is_unlike_besides_luck_is_warned_of(two: tuple[Any, Any], kind: str) -> None:
    a, b = fill(two[0], OLD), fill(two[1], OLD, **OTHERWISE[kind])
    if kind == "data":
        for cell in b.plan["ablations"]["norm"]["cells"]:
            cell["settings"] = b.results.read(cell["trial"]).settings
        b.results.write_plan(b.plan)
    document = compared(a, b)
    (caution,) = document["cautions"]
    assert (caution["kind"], caution["arms"]) == (kind, ["norm: pre", "norm: post"])
    assert [each["unlike"] for each in document["arms"]] == [[kind], [kind]]
    expected = "not comparable" if kind == "data" else "identical"
    assert {each["word"] for each in document["arms"]} == {expected}
    (told,) = [line for line in lines(document) if line.startswith("Warning")]
    assert f"other {kind} in 2 arms" in told


def test_other_settings_are_named_with_both_values(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), fill(two[1], OLD)
    for cell in b.plan["ablations"]["norm"]["cells"]:
        record = b.results.read(cell["trial"])
        record.config["train"]["steps"] = 300
        b.results.write(record)
        cell["settings"] = record.settings
    b.results.write_plan(b.plan)
    (caution,) = compared(a, b)["cautions"]
    assert (caution["kind"], caution["detail"]) == ("settings", "train.steps unset → 300")


def test_other_metrics_are_not_compared(two: tuple[Any, Any]) -> None:
    a = fill(two[0], OLD)
    metric = {"name": "wer", "split": "valid", "better": "lower", "label": "word errors"}
    b = fill(two[1], OLD, metric="wer", changes={"metric": metric})
    assert {each["word"] for each in compared(a, b)["arms"]} == {"not comparable"}


def test_what_stands_on_one_side_only_is_named(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], {**OLD, "none": 0.5}), fill(two[1], OLD)
    a.ablation("width", ["d 64", "d 128"])
    document = compared(a, b)
    assert document["only_a"] == {"questions": ["width"], "arms": [["norm", "none", ""]]}
    assert document["only_b"] == {"questions": [], "arms": []}
    assert "Only in A: questions width" in lines(document)
    assert "Only in A: arms norm: none" in lines(document)


def test_seeds_that_fail_on_one_side_are_told(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), fill(two[1], OLD)
    b.record("post", 200, status="diverged", reason="loss is NaN")
    told = lines(compared(a, b))
    assert "  ended otherwise: norm: post: no failure → 1 of 4 diverged" in told


def test_a_claim_with_another_verdict_is_told(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), fill(two[1], {"pre": 0.30, "post": 0.25})
    (claim,) = compared(a, b)["claims"]
    assert (claim["verdict_a"], claim["verdict_b"], claim["changed"]) == (
        *("supported", "refuted"),
        True,
    )
    told = lines(compared(a, b))
    assert "1 claim: 1 with another verdict" in told
    assert "  norm.matters (norm): supported → refuted" in told


def test_times_are_compared_as_ratios_to_the_control(two: tuple[Any, Any]) -> None:
    machines = ("cpu one", "cpu two")
    for folder, ratio, machine in zip(two, (1.1, 1.6), machines, strict=True):
        fill(folder, OLD)
        for label, own in (("pre", 1.0), ("post", ratio)):
            timed = folder.timing(own, noise=0.002, twin_noise=0.002, processes=4)
            folder.record(label, 200, 0.3, readings=timed, env={**ENV, "device": machine})
    document = compared(*two)
    (time,) = document["times"]
    assert (time["label"], time["word"], time["direction"]) == ("post", "changed", "slower")
    assert time["change"] == pytest.approx(1.6 / 1.1, rel=0.01)
    assert time["low"] < time["change"] < time["high"]
    assert document["other_machines"] == [["device cpu one", "device cpu two"]]
    assert any("times are of other machines" in line for line in lines(document))


def test_the_command_prints_lines_or_one_strict_document(
    two: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = fill(two[0], OLD), fill(two[1], {**OLD, "none": 0.7}, shake=0.001)
    b.ablation("scale", ["scaled", "raw"])
    roots = [str(a.root), str(b.root)]
    assert main(["compare", *roots]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == f"A  {a.root}: profile smoke, 8 of 8 trials done, 8 stale"

    def refuse(word: str) -> None:
        raise AssertionError(word)

    assert main(["compare", *roots, "--json"]) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=refuse)
    assert document["only_b"]["questions"] == ["scale"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["compare"], "compare takes two results folders"),
        (["compare", "nowhere", "nowhere"], "no results folder 'nowhere'"),
    ],
    ids=str,
)
def test_a_mistake_is_answered_in_one_line(
    words: list[str], answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert answer in err
    assert (out, err.count("\n")) == ("", 1)


def test_folders_without_a_common_question_are_refused(
    two: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    fill(two[0], OLD)
    two[1].ablation("width", ["d 64", "d 128"])
    assert main(["compare", str(two[0].root), str(two[1].root)]) == 2
    assert "no question in common" in capsys.readouterr().err


def test_what_one_side_has_not_run_yet_is_no_change(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), two[1]
    a.record("post", 200, status="diverged", reason="loss is NaN")
    b.ablation("norm", list(OLD), seeds=list(LUCK))
    document = compared(a, b)
    assert {each["word"] for each in document["arms"]} == {"scored on one side only"}
    assert not any(claim["changed"] for claim in document["claims"])
    told = "\n".join(lines(document))
    assert "1 claim: 0 with another verdict, 1 run on one side only" in told
    assert "ended otherwise" not in told
