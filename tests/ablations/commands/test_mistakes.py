"""Mistakes as people make them: one line with the nearest right name; nothing is written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from ablations.commands.terminal import GONE

Ask = Callable[..., str]
Refusal = Callable[..., str]
Say = Callable[..., tuple[int, str, str]]
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
    ('"train.steps": 4', '"train.steps": 0', "must be at least 1 and at most 10,000,000"),
    ('"model.position": "none"', '"model.n_heads": 7', "choose a divisor or set d_head"),
    ('"with",', '"wiht",', "Did you mean 'with'?"),
    ('"with": {}', '"with": 3', "expected {path: value}, got 3"),
    (BEFORE, CLAIM % ("position.neded", "without"), "Did you mean 'position.needed'?"),
    (BEFORE, CLAIM % ("position.needed", "witout"), "Did you mean 'without'?"),
    (BEFORE, '"tune": {"train.clip": [1.0]},\n "variants"', "two different values or more"),
    (BEFORE, '"step_times": {"witout": 2.0},\n "variants"', "expected a variant and a number"),
    ('"model.depth": 1', '"model.depth": "${oc.env:HOME}"', "write ${model.d_model}"),
    (BEFORE, '"control": "with",\n "variants"', "control is gone: write baseline"),
    (BEFORE, '"measures": ["quality"],\n "variants"', "measures is gone: list each under "),
    ('"train.steps": 4', '"train.smoothing": 0.1', "is gone: write train.label_smoothing"),
    ('"train.steps": 4', '"train.optimiser.rate": 1', "is gone: write train.optimizer"),
    (BEFORE, '"equal": "time",\n "variants"', "equal is gone: write step_times"),
    ('"task": "g2p"', '"task": "g2p", "task": "g2p"', "'task' comes twice"),
    (BEFORE, '"variants": [,', "did not find expected node content"),
]
"""What is right in a small experiment, what is written instead, and what that is answered with."""

NO_LINE = ("Did you mean 'model'?", "write ${model.d_model}")

WORDS = [
    ("plans", "no command 'plans'. Did you mean 'plan'?"),
    ("frobnicate", "clean, compare, describe, diff"),
    ("reprot", "Did you mean 'report'?"),
    ("plan positoin", "Did you mean 'position"),
    ("list --claim norm.pre-beter", "Did you mean 'norm.pre-better'?"),
    ("plan norm --profile smok", "Did you mean 'smoke'?"),
    ("plan --profile", "--profile: expected one argument"),
    ("plan --profil smoke", "no option '--profil'. Did you mean '--profile'?"),
    ("run --devcies 2", "'--devices'"),
    ("run --json", "no option '--json'"),
    ("clean --ye", "'--yes'"),
    ("clean norm", "ablations clean takes no 'norm'"),
    ("report extra", "ablations report takes no 'extra'"),
    ("show", "ablations show needs trial"),
    ("compare results/quick", "ablations compare needs B"),
    ("publish", "ablations publish needs --to"),
    ("status model.depth=2", "status takes no path=value"),
    ("plan norm =2", "path=value"),
    ("run norm --rerun stael", "--rerun: no 'stael'. Did you mean 'stale'?"),
    *((f"run norm {option}=x", f"{option} is gone: {fix}") for option, fix in GONE.items()),
    ("run norm --jobs 0", "--jobs: expected a whole number from 1, got '0'"),
    ("run --devices 1.5", "--devices: expected a whole number from 1, got '1.5'"),
    ("run --pack 0", "--pack: expected a whole number from 1, got '0'"),
    ("run --limit nan", "--limit: expected a number of seconds above 0, got 'nan'"),
    ("run --limit -5", "--limit"),
    ("plan --seeds -1", "--seeds"),
    ("plan --seeds 0,-3", "such as 300-304"),
    ("plan --seeds 1,2,1", "each seed once"),
    ("plan --seeds 5-3", "each seed once"),
    ("plan --seeds 0", "how many, from 1 to 10"),
    ("plan --seeds 11", "one seed by its number: 11-11"),
    ("plan --seeds 99-101", "100 is reserved for tuning"),
    ("run norm --device gpu9", "--device gpu9: not usable here"),
    ("run --devices 2 --pack 3", "--pack and --devices do not go together"),
    ("run --device cpu:0 --devices 2", "--devices 2: say --device cpu, without a"),
    ("run --cluster x.yaml", "--cluster is for --on slurm: leave it out"),
    ("plan norm model.n_head=8", "Did you mean 'model.n_heads'?"),
    ("plan norm/g2p modle.d_model=8", "Did you mean 'model'?"),
    ("plan norm/g2p --seeds 1 model.position=rotery", "Did you mean 'rotary'?"),
    ("plan norm/g2p train.steps=many", "expected a whole number, got 'many'"),
    ("plan norm/g2p task.words=0", "words=0: must be at least 1, or null for all words"),
    ("diff norm/g2p:pre", "diff compares two variants"),
    ("diff norm/g2p:pre norm/g2p:pots", "no variant 'pots' in norm/g2p. Did you mean 'post'?"),
    ("diff norm/g2p:pre nrm:post", "no chapter or experiment 'nrm'. Did you mean 'norm'?"),
    ("diff norm/g2p norm/g2p:post", "no variant '' in norm/g2p. Choose from: "),
    ("diff norm:pre norm/g2p:post", "norm is a chapter: name one of norm/g2p, norm/text, "),
    ("figure forrest", "no figure 'forrest'. Did you mean 'forest'?"),
    ("plan recurrent", "recurrent is gone: run rnn/g2p"),
    ("run text-position", "text-position is gone: run positions/text"),
    ("plan initial", "initial is gone: run training/init"),
    ("plan norm/g2p train.optimiser.rate=1", "command line: train.optimiser: is gone: write tra"),
    ("plan norm/g2p train.optimizer.rate=1", "train.optimizer.rate: is gone: write train.opti"),
    (
        "plan norm/g2p train.parts=2",
        "command line: train.parts: is gone: write train.micro_batches",
    ),
    ("plan norm/g2p train.smoothing=.1", "is gone: write train.label_smoothing"),
    ("plan norm/g2p model.initial=x", "model.initial: is gone: write model.init"),
    ("describe gpt22", "no preset 'gpt22'. Did you mean 'gpt2'?"),
]
ODD_MODULES = ("no_such", "..", ".x", "", "a b", "a/b.py", "x" * 5000, "a\0b")
ODD_NAMES = ("../../x", "/etc/passwd", "..", ".", "", "a\0b", "<img onerror=x>", "x" * 5000)
ODD_VALUES = [
    *("train=5", "model=5", "model.n_heads=???", "train.clip=.nan", "model.norm.eps=1e999"),
    *("train.steps=0", "train.steps=.inf", "model.d_model=1e18", "model.n_heads=" + "9" * 5000),
    *("question=4", "model.n_heads=${oc.env:HOME}", "train.optimizer=[1]"),
    *("model.x=" + "{" * 5_000, "model.x=" + "[" * 50_000 + "]" * 50_000),
    *("model" + ".a" * 5_000 + "=1", "model.x=" + "{a: " * 200 + "1" + "}" * 200),
]


@pytest.fixture
def refusal(say: Say, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refusal:
    """The one line that a command is answered with: exit code 2, and nothing written."""
    folder = tmp_path / "stands here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def answer(*words: str) -> str:
        code, out, err = say(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), (words, err)
        assert len(err) < 1000 or max(map(len, words)) > 1000
        assert os.listdir() == []
        return err

    return answer


def test_a_mistake_in_a_file(ask: Ask, refusal: Refusal) -> None:
    """Fault 25."""
    text = Path(ask()).read_text(encoding="utf-8")
    for right, wrong, says in FILE:
        assert right in text
        line = text[: text.index(right)].count("\n") + 1
        file = Path(ask())
        file.write_text(text.replace(right, wrong, 1), encoding="utf-8")
        told = refusal("plan", str(file), "--profile", "smoke", "--seeds", "1")
        assert says in told, wrong
        assert says in NO_LINE or re.search(rf"\bsmall\.yaml:({line}|{line + 1}): ", told), wrong


def test_a_mistake_on_the_command_line(refusal: Refusal) -> None:
    """Faults 25 and 31."""
    wrong = [(words, err) for words, says in WORDS if says not in (err := refusal(*words.split()))]
    assert wrong == []


def test_a_name_or_value_of_any_shape_is_refused(refusal: Refusal, say: Say) -> None:
    for name in [*ODD_NAMES, *(f"{name}.yaml" for name in ODD_NAMES)]:
        for command in ("list", "plan", "run", "show", "status"):
            refusal(command, name)
        for command in ("plan", "status", "clean"):
            refusal(command, "--profile", name)
    for module in ODD_MODULES:
        assert "--import" in refusal("plan", "norm", "--import", module)
    for value in ODD_VALUES:
        code, out, err = say("run", "norm/g2p", "--profile", "smoke", value)
        assert (code, out, os.listdir()) == (2, "", []), value[:30]
        assert 0 < len(err) < 1000, value[:30]


def test_results_that_are_no_folder_are_one_line_from_every_command(
    refusal: Refusal, tmp_path: Path
) -> None:
    file = tmp_path / "a file"
    file.write_text("mine")
    asked, meant = "norm/g2p", "norm/g2p:pre"
    for command in (["plan", asked], ["run", asked], ["status"], ["clean"], ["show", meant],
                    ["try", meant, "word"]):  # fmt: skip
        for name in (str(file), str(file / "below")):
            line = refusal(*command, "--results", name)
            assert line == f"--results {name}: {file} is no folder\n"
        for name in ("", "a\0b"):
            assert "not the name of a folder" in refusal(*command, "--results", name)
    assert file.read_text() == "mine"


def test_more_devices_than_there_are_are_refused(
    refusal: Refusal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ablations.train.device.pick_device", torch.device)
    monkeypatch.setattr(torch.accelerator, "device_count", lambda: 2)
    words = ("run", "norm", "--profile", "smoke", "--device", "cuda", "--devices", "3")
    assert "--devices 3: this machine has 2 (cuda)" in refusal(*words)
