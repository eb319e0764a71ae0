"""Whatever happens to a command, it ends in one line and the right exit code."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch

from ablations.commands.terminal import guarded, working


def raising(error: BaseException) -> Callable[[], int]:
    def command() -> int:
        raise error

    return command


def recursing() -> int:
    return recursing()


STOPPED = "Stopped. The same command goes on from here.\n"
CUDA = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nGPU 0")
ANSWERS: list[tuple[Callable[[], int], int, str]] = [
    (
        raising(FileNotFoundError(2, "No such file or directory", "a\nb.yaml")),
        1,
        "No such file or directory: a b.yaml\n",
    ),
    (raising(OSError(28, "No space left on device")), 1, "No space left on device\n"),
    (raising(OSError("the disk is gone")), 1, "the disk is gone\n"),
    (lambda: len([0] * 10**18), 1, "out of memory\n"),
    (lambda: len(torch.empty(10**15)), 1, "out of memory\n"),
    (raising(CUDA), 1, "out of memory\n"),
    (recursing, 2, "nested too deeply\n"),
    (raising(BrokenPipeError(32, "Broken pipe")), 1, ""),
    (raising(KeyboardInterrupt()), 130, STOPPED),
    (raising(SystemExit(0)), 0, ""),
    (lambda: 7, 7, ""),
]


def test_what_a_command_cannot_help_is_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for command, code, line in ANSWERS:
        assert guarded(command) == code
        assert capsys.readouterr() == ("", line)


def test_a_bug_is_not_hidden() -> None:
    for error in [RuntimeError("shapes differ"), TypeError("no"), ValueError()]:
        with pytest.raises(type(error)):
            guarded(raising(error))


def test_what_takes_long_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ablations.commands.terminal.PATIENCE", 0.0)
    with working("Counting sheep"):
        err = ""
        while not err:  # as soon as the other thread comes to it
            time.sleep(0)
            err = capsys.readouterr().err
    assert err == "Counting sheep …\n"
    monkeypatch.setattr("ablations.commands.terminal.PATIENCE", 3600.0)
    with working("Counting sheep"):
        pass
    assert capsys.readouterr().err == ""
