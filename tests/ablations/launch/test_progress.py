"""A run shows what is done, what failed and how long the rest will take."""

from __future__ import annotations

import io
import re

import pytest

from ablations import progress
from ablations.progress import Display, roughly


class Terminal(io.StringIO):
    """A screen eighty columns wide that keeps all it was sent."""

    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.getvalue())
        return [line.rstrip() for line in re.split(r"[\r\n]+", plain)]


class Latin(io.StringIO):
    encoding = "latin-1"

    def write(self, text: str) -> int:
        text.encode(self.encoding)
        return super().write(text)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time as `progress` reads it: set the first number."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def test_a_duration_is_told_as_one_would_say_it() -> None:
    told = {
        0.2: "about 5 s", 41: "about 40 s", 57: "about 1 min", 725: "about 12 min",
        3590: "about 1 h", 11_900: "about 3 h 20 min", 86_400: "about 1 day",
        130_000: "about 1.5 days", 3.4 * 86_400: "about 3 days", 4e8: "about 4,630 days",
    }  # fmt: skip
    assert {seconds: roughly(seconds) for seconds in told} == told


def test_away_from_a_terminal_each_finished_trial_is_a_line_with_the_time_left(
    clock: list[float],
) -> None:
    stream = io.StringIO()
    with Display(4, sizes=dict.fromkeys("ab", 20.0), stream=stream) as display:
        display.progress("a", "position:none seed 1", 0.5, "step 100")
        assert stream.getvalue() == ""
        display.describe("pass 1 of 5")
        clock[0] = 60.0
        display.finished("a", "position:none seed 1", "ok", 12.34, "loss 1.93")
        display.finished("b", "position:rotary seed 1", "error", 0.1, "ValueError: odd\nwidth")
        clock[0] = 100.0
        display.progress("c", "unnamed", 0.5, "half")
        display.finished("d", "another", "ok", 9.0)
        display.say("stopped")
    assert stream.getvalue().splitlines() == [
        "pass 1 of 5",
        "[1/4] position:none seed 1  ok  12.3 s  loss 1.93  (left about 3 min)",
        # A failed trial tells nothing about the time of the others.
        "[2/4] position:rotary seed 1  error  0.1 s  ValueError: odd width  (left about 2 min)",
        "[3/4] another  ok  9.0 s  (left about 20 s)",  # two and a half of three in 100 s
        "stopped",
    ]


def test_a_terminal_shows_counts_running_trials_and_time_left(
    terminal: Terminal, clock: list[float]
) -> None:
    with Display(4, sizes=dict.fromkeys("abcd", 60.0), stream=terminal) as display:
        clock[0] = 24.0
        display.describe("pass 2 of 5")
        display.finished("a", "norm:pre seed 0", "ok", 60.0)
        display.finished("b", "norm:post seed 0", "diverged", 12.0, "at step 40")
        display.progress("c", "norm:none seed 0", 0.5, "step 200, loss 2.1")
        display.progress("d", "norm:layer seed 0", 0.0, "")
        display.say("a word")
    shown = terminal.lines()
    assert any(
        line.startswith("2/4  1 ok, 1 diverged") and line.endswith("pass 2 of 5, left about 25 s")
        for line in shown
    )
    running = [line for line in shown if line.startswith("norm:none seed 0")]
    assert any(line.endswith("step 200, loss 2.1") for line in running)
    assert "[2/4] norm:post seed 0  diverged  12.0 s  at step 40" in shown
    assert "a word" in shown
    assert not any("norm:pre" in line for line in shown), "the count tells of it"


def test_no_name_breaks_the_layout_or_is_taken_for_markup(terminal: Terminal) -> None:
    plain = io.StringIO()
    for stream in (terminal, plain):
        with Display(3, stream=stream) as display:
            display.progress("a", "[bold]x[/bold] {0} [/]", 0.1, "[red]loss[/red]")
            display.progress("b", "long " * 1_000, 0.0, "")
            display.say("[i]said[/i]")
            display.finished("a", "[bold]x[/bold] {0} [/]", "error", 1.0, "[red]loss[/red]")
            display.finished("b", "long " * 1_000, "error", 1.0, "n" * 1_000)
            display.finished("c", "\x1b[2J\x00two\nlines", "error", 1.0)
    shown = terminal.lines()
    assert any(line.startswith("[bold]x[/bold] {0} [/]") for line in shown)
    assert "[i]said[/i]" in shown
    assert "\x1b[2J" not in terminal.getvalue()
    assert all(len(line) <= 80 for line in shown if not line.startswith("[2/3]"))
    _, first, second, third = plain.getvalue().splitlines()
    assert first == "[1/3] [bold]x[/bold] {0} [/]  error  1.0 s  [red]loss[/red]"
    assert len(second) < 220
    assert third == "[3/3] \ufffd[2J\ufffdtwo lines  error  1.0 s"


def test_a_narrow_character_set_costs_characters_not_the_run() -> None:
    stream = Latin()
    with Display(1, stream=stream) as display:
        display.finished("a", "scale √d × 2 " + "x" * 80, "ok", 1.0)
    assert stream.getvalue().startswith("[1/1] scale ?d × 2 xxx")
