"""Fault 50: nobody reads, or a module raises whatever it likes: one line, and records are kept."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from processes import HERE, PATH
from watching import LONG

from ablations.commands import main
from ablations.progress import Display
from ablations.store.results import Results

PYTHON = shlex.quote(sys.executable)
FULL = "No space left on device\n"


def shell(command: str) -> tuple[str, str]:
    """What bash says, which can close a stream, lead it to a full device or to nobody."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", command],
        env=env | {"PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=LONG,
    )
    return done.stdout, done.stderr


@pytest.mark.parametrize("streams", ["<&- >&- 2>&-", ">/dev/full 2>/dev/full"])
def test_a_sweep_that_nobody_can_watch_keeps_its_records_and_its_exit_code(
    results: Results, streams: str
) -> None:
    trials = shlex.quote(json.dumps({"a": {}, "b": {"do": "fail"}}))
    folder = shlex.quote(str(results.root))
    words = f"{PYTHON} {HERE}/toy_command.py {trials} run --jobs 1 --results {folder}"
    assert shell(f"{words} {streams}; echo $?") == ("1\n", "")
    held = [results.read(trial) for trial in "ab"]
    assert [record and record.status for record in held] == ["ok", "error"]


@pytest.mark.parametrize(
    ("command", "code", "err"),
    [
        ("list | head -0", 1, ""),
        ("--help >/dev/full", 1, FULL),
        ("lst 2>/dev/full", 2, ""),
    ],
)
def test_a_command_whose_words_cannot_be_passed_on_ends_without_a_traceback(
    command: str, code: int, err: str
) -> None:
    told = shell(f"{PYTHON} -m ablations {command}; echo ${{PIPESTATUS[0]}}")
    assert told == (f"{code}\n", err)


OPENING = """
import os, sys
from ablations.commands import main
main(['lst'])
opened = os.open(os.devnull, os.O_RDONLY)
with open(sys.argv[1], 'w') as file:
    print(opened, *map(os.get_inheritable, range(3)), file=file)
"""


def test_no_file_takes_the_place_of_a_stream_that_is_closed(tmp_path: Path) -> None:
    """Here or in a worker: what a library prints would be written into it."""
    told = tmp_path / "told"
    words = f"{PYTHON} -c {shlex.quote(OPENING)} {shlex.quote(str(told))}"
    assert shell(f"{words} <&- >&- 2>&-") == ("", "")
    opened, *inherited = told.read_text().split()
    assert int(opened) > 2
    assert inherited == ["True"] * 3


class Gone(io.StringIO):
    """A stream that takes a line and no more."""

    def __init__(self, error: Exception, is_terminal: bool) -> None:
        super().__init__()
        self.error, self.is_terminal, self.asked = error, is_terminal, 0

    def isatty(self) -> bool:
        return self.is_terminal

    def write(self, text: str) -> int:
        self.asked += 1
        if self.asked > 2:
            raise self.error
        return super().write(text)


def test_a_display_that_cannot_be_shown_stops_showing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for error in (OSError(28, "full"), BrokenPipeError(32, "gone"), ValueError("closed")):
        for is_terminal in (False, True):
            stream = Gone(error, is_terminal)
            with Display(2, stream=stream) as display:
                display.say("one line")
                display.progress("a", "first", 0.5, "half")
                display.finished("a", "first", "error", 1.0)
                display.finished("b", "second", "ok", 1.0)
            assert stream.asked == 3, "it was tried once more, and then no more"


RAISING = {
    "NameError": "undefined_name",
    "SystemExit": "import sys; sys.exit(0)",
    "SyntaxError": "def",
    "Odd": "class Odd(BaseException): pass\nraise Odd('several\\nlines')",
    "AssertionError": "assert False, 'x' * 10_000",
}


def test_a_module_that_raises_anything_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, source in RAISING.items():
        module = f"raises_{name}"
        (tmp_path / f"{module}.py").write_text(source)
        assert main(["run", "norm/g2p", "--profile", "smoke", "--import", module]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n"), len(err) < 500) == ("", 1, True)
        assert err.startswith(f"--import {module}: ")
        assert name.removesuffix("Error") in err
    assert [path.name for path in tmp_path.glob("results*")] == []
