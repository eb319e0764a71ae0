"""The tests themselves: they pass beside others at work, and where Ctrl-C is ignored."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablations.commands.arguments import cores

TESTS = Path(__file__).parents[1]
LONG = 300.0  # seconds until a test gives up; none should come near it
CHOSEN = [
    "tests/ablations/sweep/test_signals.py",
    "tests/ablations/sweep/test_lease.py::test_ctrl_c_reaches_one_who_waits_for_the_lock",
    "tests/faults/test_workers.py::test_ctrl_c_ends_the_driver_quietly_and_leaves_nobody_alive",
    "tests/faults/test_sweeps.py::test_a_second_ctrl_c_changes_nothing",
    "tests/test_doors.py::test_ctrl_c_stops_the_set_up_and_the_next_call_completes_it",
]


@pytest.fixture
def busy() -> Iterator[None]:
    """Every core has something else to do."""
    others = [
        subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(cores())
    ]
    yield
    for other in others:
        other.kill()
        other.wait()


@pytest.mark.soak
@pytest.mark.usefixtures("busy")
def test_tests_of_ctrl_c_pass_on_a_busy_machine_that_ignores_it() -> None:
    """Fault 53. As under nohup, or in the background of a shell."""
    ignoring = ["bash", "-c", 'trap "" INT; exec "$@"', "bash"]
    done = subprocess.run(
        [*ignoring, sys.executable, "-m", "pytest", "-q", *CHOSEN],
        cwd=TESTS.parent,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout.splitlines()[-1]
    assert "skipped" not in done.stdout.splitlines()[-1]


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
