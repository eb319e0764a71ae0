"""Every fault that the suite is built for has a test that names it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
FAULTS = {*range(1, 32), *range(38, 42), 46, 47, 48, 49, 50, 53}
ELSEWHERE = {9: "ablations/train/test_unfinished.py::test_a_torn_newest_is_passed_over"}


def docstrings_of(path: Path) -> dict[str, str]:
    """Test → docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def numbers(docstring: str) -> set[int]:
    """The faults that a docstring opens with: `Fault 7.`, `Faults 4, 5 and 6.`"""
    head = re.match(r"Faults? ((?:\d+(?:, | and )?)+)", docstring)
    return set(map(int, re.findall(r"\d+", head[1]))) if head else set()


def test_numbers_are_read_as_they_are_written() -> None:
    assert numbers("Faults 4, 5 and 16. More of 7.") == {4, 5, 16}
    assert numbers("Fault 24 where nothing else is.") == {24}
    assert numbers("About fault 3.") == set()


def test_no_fault_is_without_a_test() -> None:
    named = {
        number
        for path in Path(__file__).parent.glob("test_*.py")
        for docstring in docstrings_of(path).values()
        for number in numbers(docstring)
    }
    assert sorted(FAULTS - named - set(ELSEWHERE)) == []
    for place in ELSEWHERE.values():
        file, _, name = place.partition("::")
        assert name in docstrings_of(TESTS / file), place
