"""Help texts: every example is one that works; and nobody waits in silence."""

from __future__ import annotations

import shlex
import time
from pathlib import Path

import pytest

import ablations.commands
from ablations.commands import COMMANDS, PROGRAM, main
from ablations.commands.arguments import names_of
from ablations.plan.profile import find_profile
from ablations.plan.question import find, read_ablation
from ablations.plan.wanted import make_plan
from model.arguments import working

EXAMPLES = [example for command in COMMANDS.values() for example in command.examples]


def test_every_command_shows_its_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for name, command in COMMANDS.items():
        assert main([name, "--help"]) == 0
        told = [line.strip() for line in capsys.readouterr().out.splitlines()]
        shown = told[told.index("examples:") + 1 :]
        assert shown == [f"{PROGRAM} {example}" for example in command.examples]
        assert shown
        assert all(example.split()[0] == name for example in command.examples)


def test_every_word_of_an_example_means_something() -> None:
    """Options are known, questions, variants and claims exist, and what is set can be set."""
    for example in EXAMPLES:
        check(example)


def check(example: str) -> None:
    command, options = ablations.commands._parse(shlex.split(example))
    assert command == example.split()[0]
    find_profile(getattr(options, "profile", "quick"))
    names = [name for name in getattr(options, "names", []) if not name.endswith(".yaml")]
    if hasattr(options, "claim"):
        assert names_of(options) == list(options.names) or options.claim
    meant = [*getattr(options, "variants", [])]
    if ":" in getattr(options, "trial", ""):
        meant.append(":".join(options.trial.split(":")[:2]))
    for question, _, label in (each.partition(":") for each in meant):
        assert label in read_ablation(find(question)[1])[0].variants
        names.append(question)
    if names:
        set_here = getattr(options, "overrides", {}), [300], False, getattr(options, "factors", {})
        assert make_plan(names, "smoke", *set_here).wanted


def test_what_takes_long_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("model.arguments.PATIENCE", 0.0)
    with working("Counting sheep"):
        told = ""
        while not told:  # as soon as the other thread comes to it
            time.sleep(0)
            told = capsys.readouterr().err
    assert told == "Counting sheep …\n"
    monkeypatch.setattr("model.arguments.PATIENCE", 3600.0)
    with working("Counting sheep"):
        pass
    assert capsys.readouterr().err == ""


def test_a_slow_command_says_what_it_does_on_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class AtOnce:
        """A timer for one who cannot wait."""

        def __init__(self, _: float, say: object, words: list[str]) -> None:
            self.start = lambda: say(*words)  # type: ignore[operator]
            self.cancel = lambda: None

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("model.arguments.threading.Timer", AtOnce)
    for words, says in (
        ("plan position --profile smoke --seeds 1", "Planning position …"),
        ("plan position --profile smoke --seeds 1", "Comparing with results/smoke …"),
        ("diff norm:pre norm:post", "Building both models …"),
        ("status", "Reading the records of results/quick …"),
    ):
        main(words.split())
        said = capsys.readouterr()
        assert says in said.err
        assert "…" not in said.out
