"""Whatever happens to a record: old or new, never a mix; unusable ones are named and kept."""

from __future__ import annotations

import json
import os
import pickle
import resource
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ablations.record import Reading, Record, RecordError, Results, write_atomic

TRIAL = "f302523445c7"


def record(attempts: int = 1, trial: str = TRIAL) -> Record:
    return Record(
        trial,
        "ok",
        {"model": {"name": "transformer"}, "seed": 0},
        attempts=attempts,
        parameters=9610,
        measures=["quality"],
        readings=[
            Reading("loss", "nats/token", 1.93, split="valid", at={"step": 20}),
            Reading("step_time", "s", samples=[0.031, 0.03], reference=[0.04, 0.041]),
        ],
        examples=[{"input": "naïve", "target": "N AY IY V", "output": "N EY V"}],
    )


@pytest.fixture
def results(tmp_path: Path) -> Results:
    results = Results(tmp_path)
    results.write(record())
    return results


def reason(results: Results, stored: bytes) -> str:
    """The one line that a stored text is refused with."""
    results.path(TRIAL).write_bytes(stored)
    with pytest.raises(RecordError) as error:
        results.read(TRIAL)
    line = str(error.value)
    assert "\n" not in line
    assert line.startswith(f"{TRIAL}.json: ")
    return line


def without(name: str) -> bytes:
    plain = record().to_dict()
    del plain[name]
    return json.dumps(plain).encode()


def having(**changes: Any) -> bytes:
    return json.dumps({**record().to_dict(), **changes}).encode()


# Unusable.


def test_a_record_cut_anywhere_is_refused(results: Results) -> None:
    whole = results.path(TRIAL).read_bytes().rstrip()
    for length in (*range(0, len(whole), 13), len(whole) - 2, len(whole) - 1):
        reason(results, whole[:length])


def flipped(results: Results) -> Iterator[tuple[str, Record | None]]:
    """The record with one bit flipped, in every byte in turn: what stands there, what is read."""
    whole = results.path(TRIAL).read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (3 * place + 1) % 8
        results.path(TRIAL).write_bytes(damaged)
        about = damaged[max(0, place - 20) : place + 20].decode("utf-8", "replace")
        try:
            read = results.read(TRIAL)
        except RecordError:
            read = None
        yield about, read


def test_a_flipped_bit_never_breaks_the_reader(results: Results) -> None:
    read = [record for _, record in flipped(results)]
    assert read.count(None) > len(read) / 4


def test_a_flipped_bit_that_changes_what_a_record_says_is_always_seen(results: Results) -> None:
    assert [about for about, read in flipped(results) if read not in (None, record())] == []


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (b"", "JSON"),
        (b"\n", "JSON"),
        (b"\0" * 4096, "JSON"),
        (b"null", "not a record"),
        (b"[1, 2]", "not a record"),
        (b'{"name": "someone else\'s"}', "not a record"),
        (b'{"schema": "1"}', "not a record"),
        (b"\x80\x04\x95.", "not UTF-8"),
        (b'{"schema": 1, "caf\xe9": 1}', "not UTF-8"),
        (having(schema=2), "newer version"),
        (having(schema=10**9, shape="unknown"), "newer version"),
        (having(status="great"), "'great'"),
        (having(surprise=1), "'surprise'"),
        (having(config=[]), "'config'"),
        (having(measures="quality"), "'measures'"),
        (having(readings=[{"metric": "loss"}]), "reading"),
        (having(readings=[{"metric": "loss", "unit": "1", "value": "low"}]), "reading"),
        (having(readings=[{"metric": "loss", "unit": "1", "values": 3, "no": 1}]), "reading"),
        (having(readings=[3]), "reading"),
        (having(readings=[{"metric": "x", "unit": "1", "value": 10**400}]), "reading"),
        (having(parameters=float("nan")), "NaN"),
        (having(parameters=float("inf")), "Infinity"),
        (without("trial"), "'trial'"),
        (without("status"), "'status'"),
        (without("readings"), "'readings'"),
        (b"[" * 100_000, ""),
        (having(attempts=int("9" * 4000)).replace(b"9" * 4000, b"9" * 5000), "JSON"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_what_is_no_record_of_this_trial_is_refused_in_one_line(
    results: Results, stored: bytes, words: str
) -> None:
    assert words in reason(results, stored)


def test_a_record_of_another_trial_is_refused(results: Results) -> None:
    results.write(record(trial="0123456789ab"))
    assert "0123456789ab" in reason(results, results.path("0123456789ab").read_bytes())


def test_a_pickle_is_refused_and_not_executed(results: Results, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.mkdir, (str(tmp_path / "executed"),)

    reason(results, pickle.dumps(Trap()))
    assert not (tmp_path / "executed").exists()


# Kept.


@pytest.mark.parametrize("stored", [b"", b"{", b"\xff\xfe half of it", b"x" * 100_000])
def test_what_is_set_aside_loses_no_byte_and_makes_room(results: Results, stored: bytes) -> None:
    for _ in range(2):  # also when there is one set aside already
        results.path(TRIAL).write_bytes(stored)
        kept = results.set_aside(TRIAL)
        assert kept.read_bytes() == stored
        assert results.read(TRIAL) is None
    assert len(list(results.trials.iterdir())) == 2
    results.write(record())
    assert results.read(TRIAL) == record()
    assert kept.read_bytes() == stored


def test_files_left_over_by_others_are_ignored(results: Results) -> None:
    for name in (f".{TRIAL}.json.0123.tmp", f"{TRIAL}.json~", ".nfs0001", f"{TRIAL}.bad-00000000"):
        (results.trials / name).write_text("half a rec")
    assert results.read(TRIAL) == record()
    results.write(record(attempts=2))
    assert results.read(TRIAL) == record(attempts=2)


# Interrupted.


def in_child(act: Callable[[], None]) -> int:
    """How a forked child ended that did this."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            act()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step: str, count: int, after: bool) -> Callable[..., Any]:
    """A stand-in for os.<step> that kills its process at the given call, before or after it."""
    real = getattr(os, step)
    left = iter(range(count, -1, -1))

    def act(*arguments: Any) -> Any:
        last = next(left) == 0
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        answer = real(*arguments)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    return act


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("step", "count", "is_new"),
    [("fsync", 0, False), ("replace", 0, None), ("fsync", 1, True)],
    ids=["sync", "rename", "sync folder"],
)
def test_a_death_at_any_step_of_a_write_leaves_the_old_or_the_new_record(
    results: Results, step: str, count: int, is_new: bool | None, after: bool
) -> None:
    def write() -> None:
        setattr(os, step, killed_at(step, count, after))
        results.write(record(attempts=2))

    assert in_child(write) == -signal.SIGKILL
    is_new = after if is_new is None else is_new
    assert results.read(TRIAL) == record(attempts=2 if is_new else 1)
    results.write(record(attempts=3))  # the next run goes on
    assert results.read(TRIAL) == record(attempts=3)


def test_a_full_disk_is_an_error_that_leaves_the_old_record(results: Results) -> None:
    def write() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
        with pytest.raises(OSError, match="too large"):
            results.write(record(attempts=2))

    assert in_child(write) == 0
    assert results.read(TRIAL) == record()
    assert [path.name for path in results.trials.iterdir()] == [f"{TRIAL}.json"]


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        Results(tmp_path / "file" / "out").write(record())


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[list[int]]:
    """Two processes that write one file again and again, each its own letter."""
    children = []
    for letter in "ab":
        child = os.fork()
        if child == 0:
            try:
                for _ in range(40):
                    write_atomic(tmp_path / "file", letter * 50_000)
            finally:
                os._exit(0)
        children.append(child)
    yield children
    for child in children:
        os.waitpid(child, 0)


def test_who_reads_while_others_write_reads_one_of_them_whole(
    tmp_path: Path, writers: list[int]
) -> None:
    write_atomic(tmp_path / "file", "a" * 50_000)
    alive = set(writers)
    while alive:
        text = (tmp_path / "file").read_text()
        assert text in ("a" * 50_000, "b" * 50_000)
        alive -= {pid for pid in alive if os.waitid(os.P_PID, pid, WAITED) is not None}
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


WAITED = os.WEXITED | os.WNOHANG | os.WNOWAIT
