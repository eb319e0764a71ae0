"""What a claim predicts: a closed vocabulary, checked where it is written."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ablations.predictions import read_claims, read_prediction
from ablations.spec import read_experiment
from ablations.store.predictions import KINDS, Prediction, prediction_of
from model.config import ConfigError

VARIANTS = ["with", "without", "third"]
FACTORS = {"length": ["5", "10"]}
WHOLE: list[dict[str, Any]] = [
    {"better": "without", "by": 0.1, "because": "so"},
    {"worse": "without", "threshold": 0.9},
    {"equal": "without", "within": 0.02, "because": "so"},
    {"fails": "without"},
    {"grows": "third", "than": "without", "along": "length"},
    {"exponent": "with", "along": "length", "between": [0.9, None]},
    {"crosses": ["with", "without"], "along": "length", "until": 512},
    {"ratio": "without", "than": None, "between": [2.0, None], "metric": "step_time"},
    {"exact": "with", "within": 1e-10, "fails_for": "without"},
]


def read(written: Any, role: str = "predicts") -> Prediction:
    place = "claims.0.predicts.0"
    return read_prediction(written, place, VARIANTS, FACTORS, "per", "with", role)


@pytest.mark.parametrize("written", WHOLE, ids=lambda written: next(iter(written)))
def test_every_word_can_be_said_and_read_back_from_a_plan(written: dict[str, Any]) -> None:
    said = read(written)
    assert said.kind == next(iter(written))
    assert type(said) is KINDS[said.kind]
    assert said.metric == written.get("metric", "per")
    assert prediction_of(said.to_dict()) == said


def test_who_is_not_named_to_compare_with_is_the_baseline() -> None:
    assert read({"worse": "without"}).compared == ["without", "with"]
    assert read({"worse": "without", "than": "third"}).compared == ["without", "third"]
    assert read(WHOLE[7]).compared == ["without"]


def test_a_prediction_looks_at_its_variants_at_its_levels() -> None:
    said = read({"worse": "without", "factors": {"length": "5"}})
    assert said.looks_at("with", {"length": "5", "depth": "2"})
    assert not said.looks_at("with", {"length": "10"})
    assert not said.looks_at("third", {"length": "5"})


def test_a_prediction_cannot_be_changed_and_a_plan_of_another_shape_is_refused() -> None:
    said = read({"worse": "without"})
    with pytest.raises(ValidationError):
        said.by = 3.0  # type: ignore[union-attr]
    for change in ({"word": "worst"}, {"within": 0.1}, {"by": "much"}, {"of": []}):
        with pytest.raises(ValidationError):
            prediction_of({**said.to_dict(), **change})


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        (3, "claims.0.predicts.0: expected a word and a variant"),
        ({}, "expected one of better, worse"),
        ({"better": "with", "worse": "without"}, "found 2 of them"),
        ({"beter": "without"}, "expected one of better, worse"),
        ({"better": "witout"}, ".better: no variant 'witout'. Did you mean 'without'?"),
        ({"better": ["third", "without"]}, "expected one variant"),
        ({"better": "with"}, ".better: 'with' is compared with itself"),
        ({"crosses": ["with"], "along": "length"}, "expected two different variants"),
        ({"crosses": ["with", "with"], "along": "length"}, "two different variants"),
        ({"equal": "without", "because": "x"}, ": lacks 'within'"),
        ({"equal": "without", "within": 0.1}, ": lacks 'because'"),
        ({"better": "without", "by": 0.1}, "say why that size matters"),
        ({"equal": "without", "within": -1, "because": "x"}, ".within: must not be negative"),
        ({"better": "third", "metric": "steps_to_reach"}, "steps_to_reach needs its level"),
        (
            {"better": "third", "metric": "steps_to_reach", "at": {"loss": 1}, "by": 5},
            "steps_to_reach takes no margin and no threshold",
        ),
        ({"better": "without", "by": "much", "because": "x"}, ".by: expected a number"),
        ({"better": "without", "by": float("nan"), "because": "x"}, ".by: expected a finite"),
        ({"better": "without", "with": 1}, ".with: does not belong here"),
        (
            {"worse": "without", "factor": {}},
            ".factor: does not belong here. Did you mean 'factors'?",
        ),
        ({"better": "without", "role": "requires"}, ".role: does not belong here"),
        ({"better": "without", "arms": "tuned"}, ".arms: is gone: an experiment has one table"),
        ({"better": "without", "at": 3}, ".at: expected coordinates"),
        ({"better": "without", "than": "fourth"}, ".than: no variant 'fourth'"),
        ({"grows": "third", "along": "height"}, ".along: no factor 'height'"),
        ({"better": "without", "factors": {"length": "7"}}, ".factors.length: no level '7'"),
        ({"better": "without", "across": {"length": "5"}}, ".across: is gone: write factors"),
        ({"exponent": "with", "along": "length", "between": [2, 1]}, ".between: expected [low"),
        ({"ratio": "without", "between": [None, None]}, ".between: expected [low"),
        ({"exact": "with", "within": 0.0}, "lacks its positive control"),
    ],
    ids=repr,
)
def test_a_mistake_is_named_with_its_place(written: Any, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(written)
    assert problem in str(error.value)
    assert str(error.value).startswith("claims.0.predicts.0")


QUESTION = (
    "question: Does it?\ntask: g2p\nheld_constant: all\nchanges: none\nmetric: per\n"
    "evaluations: []\nbaseline: a\nvariants: {a: {}, b: {model.norm: rms}}\nclaims:\n"
)


def test_all_mistakes_of_a_file_are_named_by_its_lines(tmp_path: Any) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        QUESTION + "  - id: norm.helpz\n    predicts:\n      - {worse: b}\n"
        "  - id: norm.helps\n    predicts:\n      - {worse: b}\n      - {wurse: b}\n"
        "    require:\n      - {worse: c}\n"
    )
    with pytest.raises(ConfigError) as error:
        read_experiment(file)
    first, second, third = error.value.problems
    assert first.startswith(
        f"{file}:10: claims.0.id: no claim 'norm.helpz'. Did you mean 'norm.helps'"
    )
    assert second.startswith(f"{file}:16: claims.1.predicts.1: expected one of ")
    assert third.startswith(f"{file}:18: claims.1.require.0.worse: no variant 'c'")


def test_the_ledger_has_every_claim_once_with_who_says_it() -> None:
    assert len(read_claims()) == 73
    for claim in read_claims().values():
        assert claim.statement
        assert claim.source
    statements = [claim.statement for claim in read_claims().values()]
    assert len(set(statements)) == len(statements)
