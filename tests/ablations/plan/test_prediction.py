"""What a claim predicts: a closed vocabulary, checked where it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ablations.plan.ledger import ledger
from ablations.plan.prediction import VOCABULARY, Prediction, read_prediction
from ablations.plan.question import catalogue, read_ablation
from analysis.predictions import WORDS
from model.config import ConfigError

Ask = Callable[..., str]
VARIANTS = ["with", "without", "third"]
FACTORS = {"length": ["5", "10"]}
WHOLE: list[dict[str, Any]] = [
    {"better": "without", "by": 0.1, "because": "so"},
    {"worse": "without"},
    {"equal": "without", "within": 0.02, "because": "so"},
    {"worst": "without"},
    {"ordered": ["with", "third", "without"]},
    {"fails": "without"},
    {"trains": "with", "threshold": 0.9},
    {"grows": "with", "than": "without", "along": "length"},
    {"exponent": "with", "along": "length", "between": [0.9, None]},
    {"crosses": ["with", "without"], "along": "length"},
    {"ratio": "without", "between": [2.0, None], "metric": "step_time"},
    {"exact": "with", "within": 1e-10, "fails_for": "without"},
]


def read(written: Any) -> Prediction:
    return read_prediction(written, "claims.0.predicts.0", VARIANTS, FACTORS, "per", "with")


@pytest.mark.parametrize("written", WHOLE, ids=lambda written: next(iter(written)))
def test_every_word_can_be_said(written: dict[str, Any]) -> None:
    said = read(written)
    assert said.word == next(iter(written))
    assert said.metric == written.get("metric", "per")
    assert said.kind == VOCABULARY[said.word].kind


def test_every_word_is_tried_here_and_has_a_test_of_its_own() -> None:
    assert {next(iter(written)) for written in WHOLE} == set(VOCABULARY) == set(WORDS)


def test_who_is_not_named_to_compare_with_is_the_control() -> None:
    assert read({"worse": "without"}).than == "with"
    assert read({"worse": "without", "than": "third"}).than == "third"
    assert read({"trains": "without"}).than is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (3, "claims.0.predicts.0: expected a word and a variant"),
        ({}, "expected one of better, worse"),
        ({"better": "with", "worse": "without"}, "found 2 of them"),
        ({"beter": "without"}, "expected one of better, worse"),
        ({"better": "witout"}, ".better: no variant 'witout'. Did you mean 'without'?"),
        ({"better": ["with", "without"]}, "speaks of one variant, not of 2"),
        ({"ordered": ["with"]}, "speaks of two variants or more"),
        ({"ordered": ["with", "with"]}, "each once"),
        ({"equal": "without"}, ": lacks 'within'"),
        ({"equal": "without", "within": 0.1}, ": lacks 'because'"),
        ({"better": "without", "by": 0.1}, "say in a word why that size matters"),
        ({"equal": "without", "within": -1, "because": "x"}, ".within: must not be negative"),
        (
            {"better": "without", "metric": "steps_to_reach"},
            ".metric: steps_to_reach needs its level",
        ),
        (
            {"better": "without", "metric": "steps_to_reach", "at": {"loss": 1}, "by": 5},
            ".by: steps_to_reach are compared by their order",
        ),
        (
            {
                "equal": "without",
                "metric": "steps_to_reach",
                "at": {"loss": 1},
                "within": 5,
                "because": "x",
            },
            ".metric: steps_to_reach cannot be told to be 'equal'",
        ),
        ({"better": "without", "by": "much", "because": "x"}, ".by: expected a number"),
        ({"better": "without", "with": 1}, ".with: does not belong here"),
        ({"better": "without", "kind": "basins"}, ".kind: expected level or basin"),
        ({"better": "without", "kind": "basin"}, "a basin needs the threshold"),
        ({"better": "without", "arms": "best"}, ".arms: expected fixed or tuned"),
        ({"better": "without", "than": "fourth"}, ".than: no variant 'fourth'"),
        ({"grows": "with", "along": "height"}, ".along: no factor 'height'"),
        ({"better": "without", "across": {"length": "7"}}, ".across.length: no level '7'"),
        ({"exponent": "with", "along": "length", "between": [2, 1]}, ".between: expected [low"),
        ({"ratio": "without", "between": [None, None]}, ".between: expected [low"),
    ],
    ids=repr,
)
def test_a_mistake_is_named_with_its_place(written: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(written)
    assert problem in str(error.value)
    assert str(error.value).startswith("claims.0.predicts.0")


def test_all_mistakes_of_a_file_are_named_by_its_lines(tmp_path: Any) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "question: Does it?\ntask: g2p\nfixed: all\nmoves: none\nmetric: per\nmeasures: []\n"
        "control: a\nvariants: {a: {}, b: {model.norm: rms}}\nclaims:\n"
        "  - id: norm.helpz\n    predicts:\n      - {worse: b}\n"
        "  - id: norm.helps\n    predicts:\n      - {worse: b}\n      - {wurse: b}\n"
    )
    with pytest.raises(ConfigError) as error:
        read_ablation(file)
    first, second = error.value.problems
    assert first.startswith(
        f"{file}:10: claims.0.id: no claim 'norm.helpz'. Did you mean 'norm.helps'"
    )
    assert second.startswith(f"{file}:16: claims.1.predicts.1: expected one of ")


def test_the_ledger_has_every_claim_once_with_who_says_it() -> None:
    assert len(ledger()) == 73
    for claim in ledger().values():
        assert claim.statement
        assert claim.source
    statements = [claim.statement for claim in ledger().values()]
    assert len(set(statements)) == len(statements)


def test_every_claim_of_the_catalogue_predicts_something() -> None:
    named = {
        claim.id: predictions
        for path in catalogue().values()
        for claim, predictions in read_ablation(path)[0].predictions
    }
    assert len(named) >= 35
    assert all(named.values())
