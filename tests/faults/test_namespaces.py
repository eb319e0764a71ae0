"""Containers that share a results folder, and perhaps a name, share no processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import PATH

from ablations.commands import main
from ablations.store.files import _beside, is_left
from ablations.store.results import Results

LONG = 60.0  # seconds until a test gives up; none should come near it
NUMBER = 31_000  # near the most that any system counts processes to by default
WRITER = """
import os, sys
from pathlib import Path
import ablations.store.files as files

def wait(source, target):
    print(os.getpid(), Path(source).name, flush=True)
    sys.stdin.read()
    replace(source, target)

replace, os.replace = os.replace, wait
files.write_atomic(Path(sys.argv[1]), 'whole')
"""


def pretend(patch: pytest.MonkeyPatch, namespace: str) -> None:
    """To be a process of another pid namespace of this machine."""
    readlink = os.readlink
    elsewhere = {"/proc/self/ns/pid": namespace}
    patch.setattr(os, "readlink", lambda path: elsewhere.get(path) or readlink(path))


def plan(results: Results) -> None:
    results.write_plan({"profile": "smoke", "ablations": {}})
    results.trials.mkdir()


@pytest.fixture
def writer(results: Results, drivers: list[subprocess.Popen[str]]) -> subprocess.Popen[str]:
    """A process in a pid namespace of its own, in the middle of a write."""
    enter = ["unshare", "--pid", "--fork", "--kill-child", "bash", "-c"]
    number = f'echo {NUMBER} > /proc/sys/kernel/ns_last_pid && "$@"; true'
    try:
        subprocess.run([*enter, f"echo {NUMBER} > /proc/sys/kernel/ns_last_pid"], check=True,
                       capture_output=True, timeout=LONG)  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        pytest.skip(f"a pid namespace takes a right that is lacking here ({error})")
    started = subprocess.Popen(
        [*enter, number, "bash", sys.executable, "-c", WRITER, str(results.path("a"))],
        env=os.environ | {"PYTHONPATH": PATH},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    drivers.append(started)
    return started


def test_a_writer_in_another_pid_namespace_loses_nothing_to_clean(
    results: Results, writer: subprocess.Popen[str]
) -> None:
    """Fault 48. Its number means nothing here, where no process has it."""
    plan(results)
    assert writer.stdout
    pid, name = writer.stdout.readline().split()
    assert not Path(f"/proc/{pid}").exists(), "choose another number for this test"
    assert (results.trials / name).exists()
    assert main(["clean", "--yes", "--results", str(results.root)]) == 0
    assert (results.trials / name).exists()
    writer.communicate(timeout=LONG)
    assert results.path("a").read_text() == "whole"


@pytest.mark.skipif(sys.platform != "linux", reason="no namespaces elsewhere")
def test_whose_writer_is_in_another_namespace_is_not_known_to_be_left(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 48. The same number here may be a dead process, or a living one that has no part."""
    with monkeypatch.context() as patch:
        pretend(patch, "pid:[1]")
        name = _beside(results.path("a")).name
        assert is_left(name) is False
    assert is_left(name) is None
