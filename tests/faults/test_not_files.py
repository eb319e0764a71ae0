"""A FIFO, a folder, a socket or a device where a file is read: named, never waited for."""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from ablations.commands import main
from ablations.leases import Leases
from ablations.plan.document import merge_into
from ablations.plan.wanted import Plan, make_plan
from ablations.store.files import NotAFileError
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.tasks.data.lines import read_text
from ablations.train.checkpoint import Checkpointer, load_weights, read_words, unpack
from analysis.load import load
from model.config import ConfigError

Ask = Callable[..., str]
Make = Callable[[Path], Path]
Sweep = Callable[..., Counter[str]]


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ours:
        here = os.open(".", os.O_RDONLY)
        os.chdir(path.parent)  # for a socket's name may have no more than 107 letters
        try:
            ours.bind(path.name)
        finally:
            os.chdir(here)
            os.close(here)


MAKERS: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a folder": Path.mkdir,
    "a socket": make_socket,
    "a device": lambda path: path.symlink_to(os.devnull),
}


@pytest.fixture(params=MAKERS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def make(kind: str) -> Make:
    """Puts something that is no file in a file's place."""

    def place(path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        MAKERS[kind](path)
        return path

    return place


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return make_plan([ask()], "smoke", {}, [0])


@pytest.fixture
def planned(plan: Plan, results: Results, make: Make) -> str:
    """Two trials: one has its record, and the record of the other, given here, is no file."""
    merge_into(results, plan)
    whole, other = plan.wanted
    results.write(Record(whole, "ok", plan.wanted[whole].config, measures={"quality": {}}))
    make(results.path(other))
    return other


def test_what_is_no_record_is_named_and_left_out(
    results: Results, planned: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 47."""
    with pytest.raises(RecordError, match=rf"^{planned}\.json: {kind}, not a file$"):
        results.read(planned)
    assert load(results.root).unreadable == {planned: f"{planned}.json: {kind}, not a file"}
    folder = ["--results", str(results.root)]
    assert main(["status", *folder]) == 0
    assert f"{planned}.json: {kind}, not a file" in capsys.readouterr().out
    assert main(["clean", *folder]) == 0
    assert main(["show", planned, *folder]) == 2
    assert capsys.readouterr().err == f"{planned}.json: {kind}, not a file\n"


def test_what_is_no_record_is_set_aside_and_its_trial_run(
    results: Results, sweep: Sweep, make: Make, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 47."""
    make(results.path("a"))
    assert sweep({"a": {}, "b": {}}) == {"ok": 2}
    (aside,) = results.trials.glob("a.bad-*")
    assert f"a.json: {kind}, not a file; kept as {aside.name}" in capsys.readouterr().err
    assert not aside.is_file()
    record = results.read("a")
    assert record is not None
    assert record.status == "ok"


def test_a_plan_that_is_no_file_is_one_line(
    results: Results, make: Make, kind: str, ask: Ask, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 47."""
    make(results.plan_file)
    folder = ["--profile", "smoke", "--seeds", "0-0", "--results", str(results.root)]
    for words in (["status", *folder[4:]], ["clean", *folder[4:]], ["run", ask(), *folder]):
        assert main(words) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"{results.plan_file}: {kind}, not a file; ")


def test_weights_that_are_no_file_are_none(tmp_path: Path, make: Make, kind: str) -> None:
    """Fault 47. A training goes on from the checkpoint before it."""
    weights = make(tmp_path / "weights.safetensors")
    for read in (unpack, read_words):
        with pytest.raises(NotAFileError, match=kind):
            read(weights)
    with pytest.raises(ConfigError, match=rf"not a checkpoint of this trial \({kind}, not a file"):
        load_weights(nn.Linear(1, 1), weights, {})
    keeper = Checkpointer(tmp_path / "a.unfinished", {})
    keeper.save({}, {"step": 3})
    os.replace(keeper.path, keeper.previous)
    make(keeper.path)
    assert Checkpointer(keeper.path, {}).load() == ({}, {"step": 3})


def test_data_and_questions_that_are_no_files_are_one_line(
    tmp_path: Path, make: Make, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 47."""
    with pytest.raises(ValueError, match=f": {kind}, not a file; name a file that can be read"):
        read_text(str(make(tmp_path / "words.txt")))
    question = make(tmp_path / "question.yaml")
    for command in ("list", "plan", "run"):
        assert main([command, str(question)]) == 2
        assert capsys.readouterr().err == f"{question}: {kind}, not a file\n"


def test_a_lease_that_is_no_file_belongs_to_nobody(tmp_path: Path, make: Make, kind: str) -> None:
    """Fault 47."""
    path = make(tmp_path / "a")
    with Leases(tmp_path) as leases:
        assert leases.live() == []
        if kind != "a folder":  # which nobody deletes unasked
            os.utime(path, (0, 0), follow_symlinks=False)
            assert leases.take("a")
            assert [lease.name for lease in leases.live()] == ["a"]
