"""Help texts: every example is one that works; and nobody waits in silence."""

from __future__ import annotations

import shlex
import time

import pytest

from ablations.commands import parse, parsers
from ablations.commands.arguments import names_of
from ablations.commands.terminal import working
from ablations.plan.wanted import make_plan
from ablations.spec import find, find_profile, read_experiment

EXAMPLES = [
    shlex.split(line)[1:]
    for parser in parsers()[1].values()
    for line in (parser.epilog or "").splitlines()[1:]
]


def test_every_word_of_an_example_means_something() -> None:
    """Options are known, questions, variants and claims exist, and what is set can be set."""
    for example in EXAMPLES:
        check(example)


def check(example: list[str]) -> None:
    options = parse(example)
    assert options.command == example[0]
    find_profile(getattr(options, "profile", "quick"))
    if options.command == "describe":
        return
    names = [name for name in getattr(options, "names", []) if not name.endswith(".yaml")]
    if hasattr(options, "claim"):
        assert names_of(options) == list(options.names) or options.claim
    meant = [*getattr(options, "variants", [])]
    if ":" in getattr(options, "trial", ""):
        meant.append(":".join(options.trial.split(":")[:2]))
    for question, _, label in (each.partition(":") for each in meant):
        assert label in read_experiment(find(question)[question])[0].variants
        names.append(question)
    if names:
        set_here = getattr(options, "overrides", {}), [300], False, getattr(options, "factors", {})
        assert make_plan(names, "smoke", *set_here).wanted


def test_what_takes_long_says_what_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ablations.commands.terminal.PATIENCE", 0.0)
    with working("Counting sheep"):
        told = ""
        while not told:  # as soon as the other thread comes to it
            time.sleep(0)
            told = capsys.readouterr().err
    assert told == "Counting sheep …\n"
    monkeypatch.setattr("ablations.commands.terminal.PATIENCE", 3600.0)
    with working("Counting sheep"):
        pass
    assert capsys.readouterr().err == ""
