"""Two results folders side by side: what changed beyond noise, and what cannot be compared."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ablations.commands import main
from analysis.compare import compare, lines
from analysis.contrasts import gather

LUCK = {300: 0.0, 301: 0.012, 302: -0.02, 303: 0.007}
ENV = {"commit": "1" * 7, "code": {"model/norms.py": "aaa"}, "numerics": "torch 2, AVX512"}
OLD = {"pre": 0.30, "post": 0.40}
PER = {"name": "per", "split": "valid", "better": "lower", "title": "phone error rate"}


def fill(folder: Any, means: dict[str, float], *, shake: float = 0.0, **fields: Any) -> Any:
    """One question whose seeds share their luck; `shake` moves each seed in its own way."""
    seeds = fields.pop("seeds", list(LUCK))
    folder.ablation("norm", list(means), seeds=seeds, **fields.pop("changes", {}))
    for place, (label, mean) in enumerate(means.items()):
        for seed in seeds:
            own = shake * math.sin(seed * (place + 2))
            luck = LUCK[300 + seed % 4] * (1 + 0.1 * place)
            folder.record(label, seed, mean + luck + own, **{"env": ENV, **fields})
    return folder


@pytest.fixture
def two(folder: Any, tmp_path: Path) -> tuple[Any, Any]:
    return folder, type(folder)(tmp_path / "other")


def compared(a: Any, b: Any) -> dict[str, Any]:
    return compare(gather(a.root), gather(b.root))


def arm(document: dict[str, Any], label: str) -> dict[str, Any]:
    (found,) = [each for each in document["scores"] if each["variant"] == label]
    return found


def words(document: dict[str, Any]) -> set[str]:
    return {each["mark"] for each in document["scores"]}


def test_a_run_that_is_repeated_exactly_is_identical(two: tuple[Any, Any]) -> None:
    document = compared(*(fill(folder, OLD) for folder in two))
    assert words(document) == {"identical"}
    assert not any(each["unlike"] for each in document["scores"])
    assert "2 scores: 2 identical" in lines(document)


def test_a_change_is_tested_seed_by_seed(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], OLD), fill(two[1], {"pre": 0.30, "post": 0.45}, shake=0.002)
    document = compared(a, b)
    post = arm(document, "post")
    sides = [
        [folder.results.read(folder.trial("post", seed)).measurements[2].value for seed in LUCK]
        for folder in (a, b)
    ]
    ends = scipy_stats.ttest_rel(sides[1], sides[0]).confidence_interval(0.95)
    assert (post["a"], post["b"]) == pytest.approx(tuple(map(np.mean, sides)))
    assert post["change"] == pytest.approx(np.mean(sides[1]) - np.mean(sides[0]))
    assert (post["low"], post["high"]) == pytest.approx((ends.low, ends.high))
    assert (post["mark"], post["paired"], post["n"]) == ("worse", True, 4)
    assert arm(document, "pre")["mark"] == "not resolved"
    (text,) = [line for line in lines(document) if "post" in line]
    assert text == (
        "  worse: norm: post: per 0.400 → 0.450, by 0.050 (95 % interval 0.047 to 0.054, "
        "paired by seed, n = 4)"
    )


def test_without_shared_seeds_two_samples_are_compared(two: tuple[Any, Any]) -> None:
    a = fill(two[0], OLD)
    b = fill(two[1], {"pre": 0.30, "post": 0.60}, seeds=[400, 401, 402])
    post = arm(compared(a, b), "post")
    ones = [0.40 + 1.1 * luck for luck in LUCK.values()]
    test = scipy_stats.ttest_ind(
        [0.60 + 1.1 * LUCK[s] for s in (300, 301, 302)], ones, equal_var=False
    )
    ends = test.confidence_interval(0.95)
    assert (post["low"], post["high"]) == pytest.approx((ends.low, ends.high))
    assert (post["mark"], post["paired"]) == ("worse", False)


def test_a_rise_is_better_where_more_is_better_and_two_seeds_decide_nothing(
    two: tuple[Any, Any],
) -> None:
    changes = {"metric": {**PER, "better": "higher", "matters": 0.02}}
    means = {"pre": 0.30, "post": 0.45}
    for seeds, found in ((list(LUCK), ["tie", "better"]), ([300, 301], ["few seeds"] * 2)):
        a = fill(two[0], OLD, changes=changes, seeds=seeds)
        b = fill(two[1], means, shake=0.002, changes=changes, seeds=seeds)
        document = compared(a, b)
        assert [arm(document, label)["mark"] for label in means] == found


OTHERWISE: dict[str, dict[str, Any]] = {
    "code": {"env": {**ENV, "code": {"model/norms.py": "bbb"}}},
    "torch": {"env": {**ENV, "numerics": "torch 3, NEON"}},
    "data": {},
    "settings": {},
    "metric": {"metric": "wer", "changes": {"metric": {**PER, "name": "wer"}}},
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_what_is_unlike_besides_luck_is_listed(two: tuple[Any, Any], kind: str) -> None:
    a = fill(two[0], OLD)
    two[1].data = "f" * 64 if kind == "data" else two[0].data
    if kind == "settings":
        two[1].configs["pre"] = {"model": {"variant": "pre"}, "train": {"steps": 300}}
    document = compared(a, fill(two[1], OLD, **OTHERWISE[kind]))
    unlike = arm(document, "pre")["unlike"]
    assert list(unlike) == [kind]
    assert kind != "settings" or unlike[kind] == "train.steps unset → 300"
    is_comparable = kind not in ("data", "metric")
    assert words(document) == {"identical" if is_comparable else "not comparable"}
    (text,) = [line for line in lines(document) if line.startswith(f"Other {kind} in ")]
    assert ("not comparable" in text) != is_comparable


def test_what_stands_on_one_side_only_is_named(two: tuple[Any, Any]) -> None:
    a, b = fill(two[0], {**OLD, "none": 0.5}), fill(two[1], OLD)
    a.ablation("width", ["d 64", "d 128"])
    document = compared(a, b)
    assert document["only_a"] == {"experiments": ["width"], "variants": ["norm: none"]}
    assert document["only_b"] == {"experiments": [], "variants": []}
    assert "Only in A: experiments width" in lines(document)
    assert "Only in A: variants norm: none" in lines(document)


def test_a_claim_with_another_verdict_and_a_seed_that_failed_are_told(two: tuple[Any, Any]) -> None:
    a = fill(two[0], OLD, shake=0.001)
    b = fill(two[1], {"pre": 0.30, "post": 0.25}, shake=0.001)
    (claim,) = compared(a, b)["claims"]
    assert (claim["verdict_a"], claim["verdict_b"]) == ("supported", "refuted")
    found = lines(compared(a, b))
    assert "1 claims: 1 with another verdict" in found
    assert "  norm.matters (norm): supported → refuted" in found
    b.record("post", 300, status="diverged", reason="loss is NaN")
    assert "  ended otherwise: norm: post: no failure → 1 of 4 diverged" in lines(compared(a, b))


def test_times_are_compared_as_ratios_to_the_baseline_of_one_machine(two: tuple[Any, Any]) -> None:
    def time(machine: str) -> tuple[dict[str, Any], list[str]]:
        for folder, ratio, own in ((two[0], 1.1, "one"), (two[1], 1.6, machine)):
            fill(folder, OLD, seeds=[300])
            for label, times in (("pre", 1.0), ("post", ratio)):
                timed = folder.timing(times, noise=0.002, twin_noise=0.002, processes=4)
                folder.record(label, 300, 0.3, measurements=timed, env={**ENV, "device": own})
        document = compared(*two)
        (found,) = document["times"]
        return found, lines(document)

    same, _ = time("one")
    assert (same["variant"], same["mark"]) == ("post", "slower")
    assert same["low"] < same["change"] < same["high"]
    assert same["change"] == pytest.approx(1.6 / 1.1, rel=0.01)
    other, told = time("another")
    assert (other["mark"], other["low"]) == ("not comparable", None)
    assert any(line.startswith("Other machine in 1 time") for line in told)


def test_the_command_refuses_folders_with_nothing_in_common(
    two: tuple[Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = fill(two[0], OLD), two[1]
    b.ablation("width", ["d 64", "d 128"])
    roots = [str(a.root), str(b.root)]
    assert main(["compare", *roots]) == 2
    assert "no experiment in common" in capsys.readouterr().err
    b.ablation("norm", list(OLD), seeds=list(LUCK))
    a.record("post", 300, status="diverged", reason="loss is NaN")

    assert main(["compare", *roots]) == 0
    document = compare(gather(a.root), gather(b.root))
    assert document["only_b"]["experiments"] == ["width"]
    assert words(document) == {"one side only"}, "what was not run yet is no change"
    assert not any(claim["changed"] for claim in document["claims"])
    assert not any("ended otherwise" in line for line in lines(document))
