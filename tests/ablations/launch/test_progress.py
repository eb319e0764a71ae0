"""A sweep shows what is done, what failed and how long the rest will take."""

from __future__ import annotations

import io
import re

import pytest

from ablations.progress import Display, TimeLeft, roughly


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


def test_the_rest_takes_what_finished_jobs_took_by_their_sizes() -> None:
    left = TimeLeft(jobs=4)
    assert left.seconds() is None
    left.finished("a", 10.0)
    assert left.seconds() == 30.0
    left = TimeLeft(jobs=3, sizes={"a": 10.0, "b": 30.0, "c": 5.0})
    assert left.seconds() is None
    for name, rest in {"a": 70.0, "b": 10.0, "c": 0.0}.items():
        left.finished(name, 2 * {"a": 10.0, "b": 30.0, "c": 5.0}[name])
        assert left.seconds() == rest
    left = TimeLeft(jobs=4, sizes={"a": 10.0, "b": 20.0})
    left.finished("surprise", None)  # it failed, which says nothing about speed
    assert left.seconds() is None
    left.finished("a", 10.0)
    assert left.seconds() == 20.0 + 15.0, "a job that nobody guessed counts as an average one"


def test_workers_share_what_is_left_of_running_jobs_but_nobody_shares_the_longest() -> None:
    left = TimeLeft(4, {"a": 10.0, "b": 10.0, "c": 10.0, "done": 5.0}, workers=2)
    left.progress("a", 0.25)
    assert left.seconds() is None  # nobody knows yet how long one takes
    left.finished("done", 10.0)
    assert left.seconds() == 2 * (7.5 + 20.0) / 2
    left.progress("a", 0.75)
    assert left.seconds() == 2 * (2.5 + 20.0) / 2
    left.finished("c", None)
    left.progress("c", 0.5)  # a late word changes nothing
    assert left.seconds() == 20.0


def test_a_duration_is_told_as_one_would_say_it() -> None:
    told = {
        0.2: "about 5 s", 41: "about 40 s", 57: "about 1 min", 725: "about 12 min",
        3590: "about 1 h", 11_900: "about 3 h 20 min", 86_400: "about 1 day",
        130_000: "about 1.5 days", 3.4 * 86_400: "about 3 days", 4e8: "about 4,630 days",
    }  # fmt: skip
    assert {seconds: roughly(seconds) for seconds in told} == told


def test_away_from_a_terminal_each_finished_trial_is_one_line() -> None:
    stream = io.StringIO()
    with Display(15, done=2, sizes=dict.fromkeys("abcd", 20.0), stream=stream) as display:
        display.started("a", "position:none seed 1")
        display.progress("a", 0.5, "step 100")
        assert stream.getvalue() == ""
        display.describe("pass 1 of 5")
        display.finished("a", "position:none seed 1", "ok", 12.34, "loss 1.93")
        display.finished("b", "position:rotary seed 1", "error", 0.1, "ValueError: odd\nwidth")
        display.say("stopped")
    assert stream.getvalue().splitlines() == [
        "pass 1 of 5",
        "[ 3/15] position:none seed 1  ok  12.3 s  loss 1.93  (left about 2 min)",
        "[ 4/15] position:rotary seed 1  error  0.1 s  ValueError: odd width  (left about 2 min)",
        "stopped",
    ]


def test_a_terminal_shows_counts_running_trials_and_time_left(terminal: Terminal) -> None:
    sizes = dict.fromkeys("abcd", 60.0)
    with Display(4, sizes=sizes, workers=2, stream=terminal) as display:
        display.describe("pass 2 of 5")
        display.finished("a", "norm:pre seed 0", "ok", 60.0)
        display.finished("b", "norm:post seed 0", "diverged", 12.0, "at step 40")
        display.started("c", "norm:none seed 0")
        display.progress("c", 0.5, "step 200, loss 2.1")
        display.started("d", "norm:layer seed 0")
        display.say("a word")
    shown = terminal.lines()
    assert any(
        line.startswith("2/4  1 ok, 1 diverged") and line.endswith("pass 2 of 5, left about 1 min")
        for line in shown
    )
    assert any(
        line.startswith("norm:none seed 0") and line.endswith("step 200, loss 2.1")
        for line in shown
    )
    assert "[2/4] norm:post seed 0  diverged  12.0 s  at step 40" in shown
    assert "a word" in shown
    assert not any("norm:pre" in line for line in shown)  # the count tells of it


def test_no_label_breaks_the_layout_or_is_taken_for_markup(terminal: Terminal) -> None:
    plain = io.StringIO()
    for stream in (terminal, plain):
        with Display(3, stream=stream) as display:
            display.started("a", "[bold]x[/bold] {0} [/]")
            display.progress("a", 0.1, "[red]loss[/red]")
            display.started("b", "long " * 1_000)
            display.started("c", "\x1b[2J\x00two\nlines")
            display.say("[i]said[/i]")
            display.finished("a", "[bold]x[/bold] {0} [/]", "error", 1.0, "[red]loss[/red]")
            display.finished("b", "long " * 1_000, "error", 1.0, "n" * 1_000)
            display.finished("c", "\x1b[2J\x00two\nlines", "error", 1.0)
    shown = terminal.lines()
    assert any(line.startswith("[bold]x[/bold] {0} [/]") for line in shown)
    assert any(line.endswith("[red]loss[/red]") for line in shown)
    assert "[i]said[/i]" in shown
    assert "\x1b[2J" not in terminal.getvalue()
    assert all(len(line) <= 80 for line in shown if not line.startswith("[2/3]"))
    lines = plain.getvalue().splitlines()
    assert len(lines) == 4
    assert lines[1] == "[1/3] [bold]x[/bold] {0} [/]  error  1.0 s  [red]loss[/red]"
    assert len(lines[2]) < 220
    assert lines[3] == "[3/3] \ufffd[2J\ufffdtwo lines  error  1.0 s"


def test_a_narrow_character_set_costs_characters_not_the_sweep() -> None:
    stream = Latin()
    with Display(1, stream=stream) as display:
        display.finished("a", "scale √d × 2 " + "x" * 80, "ok", 1.0)
    assert stream.getvalue().startswith("[1/1] scale ?d × 2 xxx")
