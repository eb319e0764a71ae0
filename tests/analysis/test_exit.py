"""A command ends in one line and the right code, whatever becomes of its disk and its streams."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main

ROOT = Path(__file__).parents[2]


@pytest.fixture
def small(folder: Any) -> Path:
    folder.ablation("position", ["sinusoidal", "none"], seeds=[0, 1])
    for seed in (0, 1):
        folder.record("sinusoidal", seed, 0.25 + 0.01 * seed)
        folder.record("none", seed, 0.65 + 0.02 * seed)
    return folder.root


def shell(command: str, results: Path) -> Any:
    """In a shell, for its limits, pipes and closed streams; `$run` is `python -m analysis`."""
    return subprocess.run(
        ["bash", "-c", f'run="{sys.executable} -m analysis"; {command}'],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={
            **{key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
            "results": str(results),
        },
    )


@pytest.mark.parametrize(
    ("words", "lost"),
    [(["report"], "report"), (["report"], "tables"), (["figure", "forest"], "figures")],
    ids=str,
)
def test_a_folder_that_takes_no_file_is_named_in_one_line(
    small: Path, words: list[str], lost: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (small / lost).write_text("a file where a folder should be")
    assert main([*words, "--results", str(small)]) == 1
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert str(small / lost) in err


def test_a_read_only_folder_is_named_in_one_line(
    small: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small.chmod(0o555)
    if os.access(small, os.W_OK):
        pytest.skip("this user may write anywhere")
    try:
        assert main(["report", "--results", str(small)]) == 1
    finally:
        small.chmod(0o755)
    assert capsys.readouterr().err == f"Permission denied: {small / 'figures'}\n"


def test_a_disk_that_takes_no_more_leaves_one_line_and_no_half_file(small: Path) -> None:
    done = shell('ulimit -f 1; $run figure forest --results "$results"', small)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"File too large: {small / 'figures' / 'forest.svg'}\n"
    assert not list((small / "figures").iterdir())


STREAMS = {
    '$run claims --results "$results" | head -0; echo ${PIPESTATUS[0]}': "1\n",
    '$run claims --results "$results" >/dev/full; echo $?': "1\n",
    '$run claims --results "$results" >&-; echo $?': "0\n",
    '$run report --results "$results" >/dev/full; echo $?': "1\n",
    '$run figure forest --results "$results" >/dev/full; echo $?': "1\n",
    '$run figure speed --results "$results" 2>&-; echo $?': "1\n",
    "$run figure forrest 2>&-; echo $?": "2\n",
    "$run figure forrest 2>/dev/full; echo $?": "2\n",
    "$run figure forrest 2>&1 >/dev/null | head -0; echo ${PIPESTATUS[0]}": "2\n",
    "$run --help | head -0; echo ${PIPESTATUS[0]}": "1\n",
}


@pytest.mark.parametrize("command", STREAMS)
def test_a_closed_or_full_stream_ends_a_command_without_a_traceback(
    command: str, small: Path
) -> None:
    done = shell(command, small)
    assert done.stdout == STREAMS[command]
    assert done.stderr in ("", "No space left on device\n")
