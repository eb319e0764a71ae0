"""The tests themselves: they pass beside others at work, and where Ctrl-C is ignored."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]


def deaf(source: str) -> list[str]:
    """Tests that speak of signal.SIGINT without seeing to it that it is not ignored."""
    tree = ast.parse(source)
    marks = [ast.unparse(node) for node in tree.body if isinstance(node, ast.Assign)]
    if any("pytestmark" in mark and "interruptible" in mark for mark in marks):
        return []
    tests = [
        node
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    texts = {node.name: ast.unparse(node) for node in tests}
    return [
        name
        for name, text in texts.items()
        if "signal.SIGINT" in text and "interruptible" not in text
    ]


def test_every_test_that_sends_ctrl_c_makes_sure_that_it_arrives() -> None:
    """Fault 53."""
    sending = "def test_a():\n    os.kill(pid, signal.SIGINT)\n"
    assert deaf(sending) == ["test_a"]
    assert deaf(f"@pytest.mark.usefixtures('interruptible')\n{sending}") == []
    files = [path for path in TESTS.rglob("test_*.py") if path != Path(__file__)]
    wrong = {path.name: deaf(path.read_text(encoding="utf-8")) for path in files}
    found = {name: tests for name, tests in wrong.items() if tests}
    assert found == {}, 'mark these with @pytest.mark.usefixtures("interruptible")'
