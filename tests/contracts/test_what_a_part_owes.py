"""A new part is told by the failing test what it still owes, and in which file to say it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest
from contract_checks import assert_same, sees_order_as_declared
from contract_subjects import around, temporary
from torch import Tensor, nn

from model.build import FAMILIES
from model.family import Family
from model.feedforward import FEEDFORWARD, ReLU
from model.mixer import MIXER
from model.mixer.convolution import Convolution
from model.norm import NORM

TESTS = Path(__file__).resolve().parents[1] / "model"
# Where the slow formula of each part stands. Those of cells and scores are read off the part's own
# weights in test_recurrent.py, which runs over every part by itself.
FORMULAS = {
    "model": ["test_transformer.py", "test_recurrent.py"],
    "position": ["test_positions.py"],
    "norm": ["test_norm_and_feedforward.py"],
    "feedforward": ["test_norm_and_feedforward.py"],
    "residual": ["test_residual.py"],
    "mixer": ["test_mixers.py"],
    "path": ["test_attention.py"],
    "mask": ["test_attention.py"],
    "similarity": ["test_attention.py"],
    "scale": ["test_scale.py"],
    "head": ["test_head.py"],
    "initial": ["test_initialise.py"],
}
BY_THEMSELVES = ("cell", "score")


def words(file: str) -> set[str]:
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {text for text in texts if isinstance(text, str)}


def owed_formulas() -> list[str]:
    """A line for each part that no formula names."""
    lines = []
    for family in FAMILIES:
        files = FORMULAS.get(family.word, [])
        named = set().union(*map(words, files))
        if family.word not in BY_THEMSELVES:
            lines += [
                f"{family.word} '{name}' has no slow formula: write it in tests/model/{files[0]}"
                for name in sorted(set(family.parts) - named)
            ]
    return lines


def test_every_family_has_a_place_for_slow_formulas() -> None:
    known = {*FORMULAS, *BY_THEMSELVES}
    missing = sorted({family.word for family in FAMILIES} - known)
    assert not missing, (
        f"{missing}: say in FORMULAS of tests/contracts/test_what_a_part_owes.py where the slow "
        "formulas of this family stand"
    )


def test_every_part_has_a_slow_formula() -> None:
    owed = owed_formulas()
    assert not owed, "\n".join(owed)


class Doubled(nn.Module):
    """A norm that nobody wrote a formula for."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        return 2 * x_BTD


def test_a_part_without_a_formula_is_named_with_the_file_that_lacks_it() -> None:
    with temporary(NORM, Doubled):
        line = "norm 'Doubled' has no slow formula: write it in tests/model/test_norm_and_feed"
        assert [owed.startswith(line) for owed in owed_formulas()] == [True]


class Demanding(ReLU):
    """A part that cannot be built unless somebody says how wide it is."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        width: int


class NarrowMixer(Convolution):
    """A mixer that sees order and does not say so."""


def test_a_part_that_cannot_be_tried_is_told_where_to_say_what_it_needs() -> None:
    place = "say in RECIPES of tests/contracts/contract_subjects.py"
    FEEDFORWARD.register("Demanding")(Demanding)
    try:
        with pytest.raises(LookupError, match=f"feedforward 'Demanding' cannot be tried: {place}"):
            around(FEEDFORWARD, "Demanding")
    finally:
        del FEEDFORWARD.parts["Demanding"]


def test_a_part_whose_sense_of_order_is_undeclared_is_told_where_to_declare_it() -> None:
    with (
        temporary(MIXER, NarrowMixer) as subject,
        pytest.raises(AssertionError, match=r"sees_order=True in RECIPES of tests/contracts"),
    ):
        sees_order_as_declared(subject)


def test_a_family_without_a_place_is_told_what_to_do() -> None:
    homeless = Family("smell")
    homeless.register("rose")(Doubled)
    with pytest.raises(LookupError, match=r"give it one: a field with choice\(…\)"):
        around(homeless, "rose")


def test_a_failed_contract_says_what_does_not_hold() -> None:
    with pytest.raises(AssertionError, match="two answers differ"):
        assert_same(1.0, 2.0, "two answers differ")
