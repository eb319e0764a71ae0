"""Whatever happens to a command, it ends in one line and the right exit code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ablations.commands.terminal import guarded

ROOT = Path(__file__).resolve().parents[3]


def raising(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


def recursing() -> int:
    return recursing()


def allocating_too_much() -> int:
    return len(torch.empty(10**15))


def listing_too_much() -> int:
    return len([0] * 10**18)


ANSWERS: dict[str, tuple[Callable[[], int], int, str]] = {
    "file": (
        raising(FileNotFoundError(2, "No such file or directory", "a\nb.yaml")),
        1,
        "No such file or directory: a b.yaml\n",
    ),
    "no file": (raising(OSError(28, "No space left on device")), 1, "No space left on device\n"),
    "bare": (raising(OSError("the disk is gone")), 1, "the disk is gone\n"),
    "memory": (listing_too_much, 1, "out of memory\n"),
    "torch's memory": (allocating_too_much, 1, "out of memory\n"),
    "an accelerator's memory": (
        raising(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nGPU 0")),
        1,
        "out of memory\n",
    ),
    "depth": (recursing, 2, "nested too deeply\n"),
    "reader gone": (raising(BrokenPipeError(32, "Broken pipe")), 1, ""),
    "stopped": (raising(KeyboardInterrupt()), 130, ""),
    "help": (raising(SystemExit(0)), 0, ""),
    "exit without a code": (raising(SystemExit()), 0, ""),
    "exit with words": (raising(SystemExit("this is wrong")), 1, "this is wrong\n"),
    "a code": (lambda: 7, 7, ""),
}


def test_what_a_command_cannot_help_is_one_line_and_a_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ANSWERS:
        main, code, line = ANSWERS[name]
        assert guarded(main) == code
        assert capsys.readouterr() == ("", line)


def test_a_fault_of_ours_is_not_hidden() -> None:
    for error in [RuntimeError("shapes differ"), TypeError("no"), ValueError()]:
        with pytest.raises(type(error)):
            guarded(raising(error))


def test_the_door_of_every_command_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "pandas", "rich")
    door = "ablations.commands.terminal"
    program = f"import sys, {door}; sys.exit(bool(sys.modules.keys() & set({heavy})))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0
