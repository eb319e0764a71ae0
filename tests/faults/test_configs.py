"""Whatever is asked for wrongly: refused before anything runs, in one clear line each."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from small import SETTINGS

from ablations.commands import main

Ask = Callable[..., str]
Say = Callable[..., tuple[int, list[str]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test stands in an empty folder."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str], folder: Path) -> Say:
    """The exit code of a command and its lines; nothing was written, and no traceback."""

    def answer(*words: str) -> tuple[int, list[str]]:
        code = main([*words])
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        assert list(folder.iterdir()) == []
        return code, err.splitlines()

    return answer


# What cannot be built.


def test_what_cannot_be_built_is_refused_all_at_once_and_leaves_no_record(
    ask: Ask, say: Say
) -> None:
    """Fault 24."""
    rotary = {"model.position": {"name": "rotary"}, "model.n_heads": 16}  # one dimension a head
    variants = {
        "with": {},
        "heads": {"model.n_heads": 7},
        "odd": rotary,
        "window": {"model.mixer": {"name": "window", "reach": 0}},
        "learned": {"model.position": "learned", "model.max_len": 5},
    }
    for command in ("plan", "run"):
        code, lines = say(command, ask(variants=variants), "--profile", "smoke", "--seeds", "0-0")
        assert code == 2
        assert len(lines) == 4
        for word, line in zip(("n_heads=7", "rotary", "reach=0", "max_len"), lines, strict=True):
            assert word in line
            assert re.match(r"small: \S+\.yaml:\d+: ", line)


def test_a_head_that_answers_otherwise_than_the_task_asks_is_refused(say: Say) -> None:
    """Fault 26."""
    for words, right in (
        (["plan", "norm/g2p", "model.head=classes"], "a label for each token; choose tokens"),
        (["plan", "norm/g2p", "model.head=bare"], "a label for each token; choose tokens"),
        (["plan", "training/listops", "model.head=tokens"], "for each sequence; choose classes"),
    ):
        code, (line,) = say(*words)
        assert (code, line.endswith(right)) == (2, True), line


# Values.


def test_a_grid_of_a_million_is_answered_before_it_is_made(ask: Ask, say: Say) -> None:
    """Fault 30."""
    hundred = {f"{n}": {"train.steps": n + 1} for n in range(100)}
    fifty = dict(list(hundred.items())[:50])
    vast = ask(factors={"a": hundred, "b": hundred, "c": fifty})
    for command in ("plan", "run"):
        code, (line,) = say(command, vast, "--profile", "smoke", "--seeds", "0-0")
        assert code == 2
        assert line.startswith("1,000,000 trials")
        assert "--large" in line


# Steps and data.


PAIRS = b"cat\tK AE T\ndog\tD AO G\n"


def test_a_data_file_that_cannot_be_used_is_one_line(ask: Ask, say: Say, tmp_path: Path) -> None:
    """Fault 31."""
    files = {name: tmp_path / f"{name}.tsv" for name in ("train", "valid", "test")}
    for path in files.values():
        path.write_bytes(PAIRS)
    settings = {key: value for key, value in SETTINGS.items() if not key.startswith("task")}
    settings |= {f"task.{name}": str(path) for name, path in files.items()}
    sizes = [f"task.{name}=null" for name in ("words", "valid_words", "test_words")]
    for content, words in (
        (b"", "empty"),
        (b"caf\xe9\tK AE F\n", "UTF-8"),
        (b"\n \n", ""),
        (None, "No such file"),
    ):
        files["train"].unlink() if content is None else files["train"].write_bytes(content)
        code, lines = say("run", ask(settings=settings), "--profile", "smoke", *sizes)
        assert code == 2
        assert any(str(files["train"]) in line and words in line for line in lines), lines
