"""Mistakes as people make them: one line with the nearest right name; nothing is written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ablations.commands import main

Ask = Callable[..., str]
Refusal = Callable[..., str]
BEFORE = '"variants"'  # a key of the file that another is written above
CLAIM = '"claims": [{"id": "%s", "predicts": [{"worse": "%s", "because": "x"}]}],\n "variants"'

FILE = [
    ('"settings"', '"setings"', "Did you mean 'settings'?"),
    ('"task": "g2p"', '"task": "g2pp"', "Did you mean 'g2p'?"),
    ('"metric": "per"', '"metric": "perr"', "Did you mean 'per'?"),
    ('"model.d_model": 16', '"model.d_modle": 16', "Did you mean 'model.d_model'?"),
    ('"model.depth": 1', '"modle.depth": 1', "Did you mean 'model'?"),
    ('"model.position": "none"', '"model.position": "rotery"', "Did you mean 'rotary'?"),
    ('"warmup": 2', '"warmpu": 2', "Did you mean 'train.schedule.warmup'?"),
    ('"train.steps": 4', '"train.steps": "many"', "expected a whole number, got 'many'"),
    ('"train.steps": 4', '"train.steps": 0', "must be from 1 to 10,000,000"),
    ('"model.position": "none"', '"model.n_heads": 7', "choose a divisor or set d_head"),
    ('"with",', '"wiht",', "Did you mean 'with'?"),
    ('"with": {}', '"with": 3', "expected {path: value}, got 3"),
    (BEFORE, CLAIM % ("position.neded", "without"), "Did you mean 'position.needed'?"),
    (BEFORE, CLAIM % ("position.needed", "witout"), "Did you mean 'without'?"),
    (BEFORE, '"tune": {"train.clip": [1.0]},\n "variants"', "two different values or more"),
    (BEFORE, '"step_times": {"witout": 2.0},\n "variants"', "expected a variant and a number"),
    ('"model.depth": 1', '"model.depth": "${oc.env:HOME}"', "write ${model.d_model}"),
    (BEFORE, '"equal": "time",\n "variants"', "equal is gone: write step_times"),
    ('"task": "g2p"', '"task": "g2p", "task": "g2p"', "'task' stands twice"),
    (BEFORE, '"variants": [,', "did not find expected node content"),
]
"""What is right in a small experiment, what is written instead, and what that is answered with."""

NO_LINE = ("Did you mean 'model'?", "write ${model.d_model}")

WORDS = [
    ("plans", "no command 'plans'. Did you mean 'plan'?"),
    ("reprot", "Did you mean 'report'?"),
    ("plan positoin", "Did you mean 'position"),
    ("list --claim norm.pre-beter", "Did you mean 'norm.pre-better'?"),
    ("plan norm --profile smok", "Did you mean 'smoke'?"),
    ("plan --profil smoke", "no option '--profil'. Did you mean '--profile'?"),
    ("run norm --rerun stael", "--rerun: no 'stael'. Did you mean 'stale'?"),
    ("run --until decided", "--until is gone: seeds are fixed beforehand; use --seeds N"),
    ("run norm --seeds 0", "--seeds 0: how many, from 1 to 10"),
    ("run norm --jobs 0", "--jobs 0: expected a whole number from 1"),
    ("run norm --device gpu9", "--device gpu9: not usable here"),
    ("plan norm model.n_head=8", "Did you mean 'model.n_heads'?"),
    ("plan norm/g2p modle.d_model=8", "Did you mean 'model'?"),
    ("plan norm/g2p --seeds 1 model.position=rotery", "Did you mean 'rotary'?"),
    ("plan norm/g2p train.steps=many", "expected a whole number, got 'many'"),
    ("status model.depth=2", "status takes no path=value"),
    ("report extra", "ablations report takes no 'extra'"),
    ("figure forrest", "no figure 'forrest'. Did you mean 'forest'?"),
    ("publish", "ablations publish needs --to"),
    ("describe gpt22", "no preset 'gpt22'. Did you mean 'gpt2'?"),
]


@pytest.fixture
def refusal(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Refusal:
    """The one line that a command is answered with: exit code 2, and nothing written."""
    folder = tmp_path / "stands here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def answer(*words: str) -> str:
        assert main(words) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), err
        assert os.listdir() == []
        return err

    return answer


@pytest.mark.parametrize(("right", "wrong", "says"), FILE, ids=[each[1][:40] for each in FILE])
def test_a_mistake_in_a_file(right: str, wrong: str, says: str, ask: Ask, refusal: Refusal) -> None:
    """Fault 25."""
    file = Path(ask())
    text = file.read_text(encoding="utf-8")
    assert right in text
    line = text[: text.index(right)].count("\n") + 1
    file.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    told = refusal("plan", str(file), "--profile", "smoke", "--seeds", "1")
    assert says in told
    assert says in NO_LINE or re.search(rf"\bsmall\.yaml:({line}|{line + 1}): ", told)


@pytest.mark.parametrize(("words", "says"), WORDS, ids=[each[0] for each in WORDS])
def test_a_mistake_on_the_command_line(words: str, says: str, refusal: Refusal) -> None:
    """Fault 25."""
    assert says in refusal(*words.split())
