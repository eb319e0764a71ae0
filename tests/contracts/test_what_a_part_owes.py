"""A new part is told by the failing test what it still owes, and in which file to say it."""

from __future__ import annotations

import ast
from pathlib import Path

from model.build import FAMILIES

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
