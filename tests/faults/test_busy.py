"""The tests themselves: they pass where Ctrl-C is ignored."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_that_sends_ctrl_c_makes_sure_that_it_arrives() -> None:
    """Fault 53. Its module or itself uses `interruptible`."""
    found = []
    for path in set(TESTS.rglob("test_*.py")) - {Path(__file__)}:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        marks = "".join(ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign))
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                text = ast.unparse(node)
                is_sending = "signal.SIGINT" in text
                if is_sending and "interruptible" not in text + marks:
                    found.append(f"{path.name}: {node.name}")
    assert found == [], 'mark these with @pytest.mark.usefixtures("interruptible")'
