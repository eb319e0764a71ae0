"""A new part is told by the failing test what it still owes, and in which file to say it."""

from __future__ import annotations

import ast
from pathlib import Path

from model.build import FAMILIES

TESTS = Path(__file__).resolve().parents[1] / "model"
# Where the slow formula of each part stands. Those of cells and scores are read off the part's own
# weights in test_recurrent.py, which runs over every part by itself.
FORMULAS = {
    "model": ["test_recurrent.py", "../parity/test_torch_transformer.py"],
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


def test_every_part_has_a_slow_formula() -> None:
    owed = []
    for family in FAMILIES:
        if family.word in BY_THEMSELVES:
            continue
        assert family.word in FORMULAS, f"say in FORMULAS where {family.word}s have their formulas"
        trees = [ast.parse((TESTS / file).read_text("utf-8")) for file in FORMULAS[family.word]]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        named = {node.value for node in nodes if isinstance(node, ast.Constant)}
        owed += [
            f"{family.word} '{name}' has no slow formula: write it in {FORMULAS[family.word][0]}"
            for name in sorted(set(family.parts) - named)
        ]
    assert not owed, "\n".join(owed)
