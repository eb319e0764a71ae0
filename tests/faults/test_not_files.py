"""Fault 47: a FIFO, a folder, a socket or a device where a file is read is named, never waited for.

Every place that reads is tried with a FIFO, which would keep a plain `open` waiting for ever.
"""

from __future__ import annotations

import os
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from torch import nn

from ablations.leases import Leases
from ablations.plan import Plan, make_plan
from ablations.plan_document import merge_into
from ablations.store.files import NotAFileError, read_file
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.tasks.data.files import read_text
from ablations.train.checkpoint import Checkpointer, load_weights, stamp_of, unpack
from analysis.load import load
from model.config import ConfigError

Say = Callable[..., tuple[int, str, str]]
Sweep = Callable[..., Counter[str]]
WORDS = "a FIFO, not a file"


def fifo(path: Path) -> Path:
    """Put one in a file's place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    return path


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as ours, pytest.MonkeyPatch.context() as patch:
        patch.chdir(path.parent)  # for a socket's name may have no more than 107 letters
        ours.bind(path.name)


@pytest.fixture
def plan(ask: Callable[..., str]) -> Plan:
    return make_plan([ask()], "smoke", {}, [0])


def test_whatever_is_no_file_is_named(tmp_path: Path) -> None:
    for name, make in (
        ("a FIFO", os.mkfifo),
        ("a folder", Path.mkdir),
        ("a socket", make_socket),
        ("a device", lambda path: path.symlink_to(os.devnull)),
    ):
        make(tmp_path / name)  # type: ignore[operator]
        with pytest.raises(NotAFileError, match=f"{name}, not a file"):
            read_file(tmp_path / name)


def test_what_is_no_record_is_named_and_left_out(results: Results, plan: Plan, say: Say) -> None:
    merge_into(results, plan)
    whole, other = plan.trials
    results.write(Record(whole, "ok", plan.trials[whole].config, sources={"quality": {}}))
    fifo(results.path(other))
    line, folder = f"{other}.json: {WORDS}", ["--results", str(results.root)]
    with pytest.raises(RecordError, match=f"^{line}$"):
        results.read(other)
    assert load(results.root).unreadable == {other: line}
    code, out, _ = say("status", *folder)
    assert (code, line in out) == (0, True)
    assert say("clean", *folder)[0] == 0
    assert say("show", other, *folder) == (2, "", f"{line}\n")


def test_what_is_no_record_is_set_aside_and_its_trial_run(
    results: Results, sweep: Sweep, capsys: pytest.CaptureFixture[str]
) -> None:
    fifo(results.path("a"))
    assert sweep({"a": {}, "b": {}}) == {"ok": 2}
    (aside,) = results.trials.glob("a.bad-*")
    assert f"a.json: {WORDS}; kept as {aside.name}" in capsys.readouterr().err
    record = results.read("a")
    assert record is not None
    assert record.status == "ok"


def test_a_plan_that_is_no_file_is_one_line(
    results: Results, ask: Callable[..., str], say: Say
) -> None:
    fifo(results.plan_file)
    folder = ["--results", str(results.root)]
    run = ["run", ask(), "--profile", "smoke", "--seeds", "0-0"]
    for words in (["status"], ["clean"], run):
        code, _, err = say(*words, *folder)
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith(f"{results.plan_file}: {WORDS}; ")


def test_weights_that_are_no_file_are_none(tmp_path: Path) -> None:
    """A training goes on from the checkpoint before it."""
    weights = fifo(tmp_path / "weights.safetensors")
    with pytest.raises(NotAFileError, match=WORDS):
        unpack(weights)
    assert stamp_of(weights) == {}
    with pytest.raises(ConfigError, match=rf"not a checkpoint of this trial \({WORDS}"):
        load_weights(nn.Linear(1, 1), weights, {})
    keeper = Checkpointer(tmp_path / "a.unfinished", {})
    keeper.save({}, {"step": 3})
    os.replace(keeper.path, keeper.previous)
    fifo(keeper.path)
    assert Checkpointer(keeper.path, {}).load() == ({}, {"step": 3})


def test_data_and_experiments_that_are_no_files_are_one_line(tmp_path: Path, say: Say) -> None:
    with pytest.raises(ValueError, match=f": {WORDS}; name a file that can be read"):
        read_text(str(fifo(tmp_path / "words.txt")))
    question = fifo(tmp_path / "question.yaml")
    for command in ("list", "plan", "run"):
        assert say(command, str(question)) == (2, "", f"{question}: {WORDS}\n")


def test_a_lease_that_is_no_file_belongs_to_nobody(tmp_path: Path) -> None:
    path = fifo(tmp_path / "a")
    with Leases(tmp_path) as leases:
        assert leases.live() == []
        os.utime(path, (0, 0))
        assert leases.take("a")
        assert [lease.name for lease in leases.live()] == ["a"]
