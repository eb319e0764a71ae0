"""Whatever happens to a record: old or new, never a mix; unusable ones are named and kept."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small import plan_document
from sweep_jobs import toy_plan

import ablations.store.files
from ablations.commands.clean import litter
from ablations.plan.missing import missing
from ablations.store.files import write_atomic
from ablations.store.identity import freeze
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from ablations.store.schema import SCHEMA, NewerRecordError, RecordError, seal
from ablations.sweep.jobs import set_aside

TRIAL = "f302523445c7"
ATTEMPT = {"status": "killed", "reason": "signal 9", "seconds": 1.5}


def record(attempts: int = 1, trial: str = TRIAL) -> Record:
    return Record(
        trial,
        "ok",
        {"model": {"name": "transformer"}, "seed": 0},
        env={"code": {"toy": "1"}},
        attempts=attempts,
        parameters=9610,
        measures={"quality": {}},
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


def reason(results: Results, stored: bytes, whole_only: bool = False) -> str:
    """The one line that a stored text is refused with, also by who reads the head alone."""
    results.path(TRIAL).write_bytes(stored)
    lines = []
    for read in (results.read, results.read):
        if read == results.read and whole_only:
            continue
        with pytest.raises(RecordError) as error:
            read(TRIAL)
        lines.append(str(error.value))
        assert "\n" not in lines[-1]
        assert len(lines[-1]) < 300
        assert lines[-1].startswith(f"{TRIAL}.json: ")
    return lines[0]


def without(name: str) -> bytes:
    plain = record().to_dict()
    del plain[name]
    return seal({"schema": SCHEMA, "readings": [], **plain})


def having(**changes: Any) -> bytes:
    return seal({**record().to_dict(), **changes})


def reading(**changes: Any) -> bytes:
    return having(
        readings=[
            *record().to_dict()["readings"],
            {"measure": "m", "metric": "x", "unit": "1", **changes},
        ]
    )


# Unusable.


def test_a_record_cut_anywhere_is_refused(results: Results) -> None:
    """Faults 4 and 5. From nothing at all to all but the last byte."""
    whole = results.path(TRIAL).read_bytes()
    for length in (*range(0, len(whole), 7), len(whole) - 2, len(whole) - 1):
        reason(results, whole[:length])


def test_a_flipped_bit_anywhere_is_seen_and_its_record_set_aside(results: Results) -> None:
    """Fault 6. One bit in every byte in turn, and every bit of the first line.

    Also in the number of the schema: no flip makes a record of a newer version.
    """
    whole = results.path(TRIAL).read_bytes()
    plan = toy_plan({TRIAL: {}})
    for place in range(len(whole)):
        bits = range(8) if place <= whole.index(b"\n") else [(3 * place + 1) % 8]
        for bit in bits:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            reason(results, bytes(damaged))
            found = missing(plan, results, None)
            assert [want.trial for want in found.train] == [*found.unusable] == [TRIAL]
    (line,) = set_aside(found, results)
    (kept,) = results.trials.glob("*.bad-*")
    assert line.endswith(f"; kept as {kept.name}")


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
        (b'{"schema": true}', "not a record"),
        (b'{"schema": 0}', "not a record"),
        (b"\x80\x04\x95.", "not UTF-8"),
        (b'{"schema": 2, "caf\xe9": 1}', "not UTF-8"),
        (json.dumps(record().to_dict()).encode(), "damaged"),
        (having().replace(b"\n", b"\r\n"), "damaged"),
        (having() + b" ", "damaged"),
        (b"[" * 100_000, ""),
        (b'{"schema": ' + b"9" * 5000 + b"}", "JSON"),
        (b'{"schema": NaN}', "NaN"),
        (having(status="great"), "'status': expected one of ok, "),
        (having(status=["ok"]), "'status'"),
        (having(surprise=1), "'surprise'"),
        (having(**{"a\nb": 1}), "unknown field"),
        (having(config=[]), "'config': expected an object, got []"),
        (having(env=None), "'env'"),
        (having(env={"seconds": -1}), "'env.seconds'"),
        (having(env={"code": 7}), "'env.code'"),
        (having(env={"earlier": {}}), "'env.earlier'"),
        (having(env={"earlier": ["killed"]}), "'env.earlier'"),
        (having(env={"earlier": [ATTEMPT, {"status": "killed"}]}), "'env.earlier'"),
        (having(env={"earlier": [{**ATTEMPT, "seconds": -1}]}), "'env.earlier'"),
        (having(env={"earlier": [{**ATTEMPT, "reason": None}]}), "'env.earlier'"),
        (having(env={"earlier": [{**ATTEMPT, "more": 1}]}), "'env.earlier'"),
        (having(env={"sessions": ["a"]}), "'env.sessions'"),
        (having(env={"sessions": {"a": 1}}), "'env.sessions'"),
        *(
            (having(status=status, reason=why), f"'reason': a record that says {status}")
            for status in ("error", "oom", "timeout", "killed")
            for why in (None, "")
        ),
        (having(data="g2p"), "'data'"),
        (having(measures="quality"), "'measures'"),
        (having(measures=["quality", 3]), "'measures'"),
        (having(measures=[""]), "'measures'"),
        (
            having(measures=["quality", "beam", "quality"]),
            "'measures': expected the files that took each",
        ),
        (having(reason=3), "'reason'"),
        (having(attempts=0), "'attempts'"),
        (having(attempts="2"), "'attempts'"),
        (having(attempts=True), "'attempts'"),
        (having(parameters=1.5), "'parameters'"),
        (having(flops_per_token="many"), "'flops_per_token'"),
        (having(flops_per_token=10**400), "'flops_per_token'"),
        (having(examples={}), "'examples'"),
        (having(examples=[{"input": "x"}, {"input": 3}]), "'examples[1]'"),
        (having(examples=["x"]), "'examples[0]'"),
        (having(trial="../../x"), "'trial'"),
        (without("trial"), "'trial' is missing"),
        (without("status"), "'status' is missing"),
        (without("env"), "'env' is missing"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else value,
)
def test_what_is_no_record_of_this_trial_is_refused_in_one_line(
    results: Results, stored: bytes, words: str
) -> None:
    assert words in reason(results, stored)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"metric": 3, "value": 1}, "'readings[2].metric': expected words, got 3"),
        ({"metric": "", "value": 1}, "'readings[2].metric'"),
        ({"unit": "", "value": 1}, "'readings[2].unit'"),
        ({"value": "low"}, "'readings[2].value': expected a finite number or null, got 'low'"),
        ({"value": True}, "'readings[2].value'"),
        ({"value": 10**400}, "'readings[2].value'"),
        ({}, "'readings[2]' has neither a value nor a reason"),
        ({"value": None, "reason": 3}, "'readings[2].reason'"),
        ({"value": 1, "no": 1}, "'readings[2].no'"),
        ({"value": 1, "split": None}, "'readings[2].split'"),
        ({"value": 1, "at": [1]}, "'readings[2].at'"),
        ({"value": 1, "at": {"step": ["ten"]}}, "'readings[2].at'"),
        ({"value": 1, "session": 1}, "'readings[2].session'"),
        ({"value": 1, "against": {}}, "'readings[2].against'"),
        ({"samples": 3}, "'readings[2].samples'"),
        ({"samples": [1, None]}, "'readings[2].samples'"),
        ({"samples": [1], "reference": ["b"]}, "'readings[2].reference'"),
        ({"samples": [1], "twin": [[1]]}, "'readings[2].twin'"),
        ({"samples": []}, "'readings[2].samples': expected a list of finite numbers, one or more"),
        ({"samples": [1], "reference": []}, "'readings[2].reference'"),
        ({"samples": [1], "reference": [1, 2]}, "'readings[2]' has not one time of each"),
        ({"samples": [1], "reference": [1], "twin": [1, 2]}, "'readings[2]' has not one time"),
        ({"values": 3, "axes": {"a": [0]}}, "'readings[2].values'"),
        ({"values": [["x"]], "axes": {"a": [0], "b": [0]}}, "'readings[2].values'"),
        ({"values": [[1]], "axes": {"a": [0]}}, "'readings[2].values'"),
        ({"values": [[1], 2], "axes": {"a": [0, 1], "b": [0]}}, "'readings[2].values'"),
        ({"values": [1]}, "'readings[2].values'"),
        ({"values": [1], "axes": {"": [0]}}, "'readings[2].axes'"),
    ],
    ids=repr,
)  # fmt: skip
def test_a_reading_that_is_none_is_named_in_one_line(
    results: Results, changes: dict[str, Any], words: str
) -> None:
    assert words in reason(results, reading(**changes), whole_only=True)


@pytest.mark.parametrize(
    ("stored", "words"),
    [
        (having(readings=[3]), "'readings[0]'"),
        (
            having(readings=[{"measure": "m", "metric": "loss", "value": 1}]),
            "'readings[0].unit' is missing",
        ),
    ],
    ids=["a number", "no unit"],
)
def test_what_are_no_readings_is_refused_in_one_line(
    results: Results, stored: bytes, words: str
) -> None:
    assert words in reason(results, stored, whole_only=True)


@pytest.mark.parametrize(
    "stored",
    [
        having(schema=3),
        having(schema=10**8),
        seal({"schema": 3, "readings": [], "shape": "unknown"}),
        seal({"schema": 3, "readings": []}).replace(b"readings", b"results"),
        b'{"schema": 99}',
        b'{"version": "9", "schema": 3}',
    ],
)
def test_a_record_of_a_newer_version_is_refused_and_never_set_aside(
    results: Results, stored: bytes
) -> None:
    """Fault 29. Whoever wrote it can still read it."""
    assert "newer version" in reason(results, stored)
    with pytest.raises(NewerRecordError):
        results.read(TRIAL)
    with pytest.raises(NewerRecordError):
        missing(toy_plan({TRIAL: {}}), results, None)
    assert [path.name for path in results.trials.iterdir()] == [f"{TRIAL}.json"]
    assert results.path(TRIAL).read_bytes() == stored


@pytest.mark.parametrize("against", [{}, "", 3, None], ids=repr)
def test_who_reads_the_head_alone_refuses_a_reading_beside_no_trial(
    results: Results, against: Any
) -> None:
    assert "against" in reason(results, reading(value=1, against=against))


def test_a_coordinate_may_be_called_as_a_field_is(results: Results) -> None:
    places: list[dict[str, float]] = [{"against": 1}, {"metric": 2}, {"readings": 3}]
    kept = record()
    kept.readings += [Reading("loss", "nats/token", 1.0, at=at) for at in places]
    kept.readings += [Reading("step_time", "s", at={"against": 1}, samples=[1.0], against="b")]
    results.write(kept)
    assert results.read(TRIAL) == kept
    head = results.read(TRIAL)
    assert head is not None
    assert head.timed == kept.timed == {("training", "b", freeze({"against": 1}))}


def test_a_record_with_failed_attempts_and_timing_sessions_is_kept(results: Results) -> None:
    env = {"earlier": [ATTEMPT, {**ATTEMPT, "seconds": None}], "sessions": {"a": {"threads": 1}}}
    kept = Record(TRIAL, "killed", {}, reason="signal 9", attempts=3, env=env)
    results.write(kept)
    assert results.read(TRIAL) == kept


def test_a_record_of_another_trial_is_refused(results: Results) -> None:
    results.write(record(trial="0123456789ab"))
    assert "0123456789ab" in reason(results, results.path("0123456789ab").read_bytes())


# Kept.


@pytest.mark.parametrize(
    "harm",
    [lambda whole: b"", lambda whole: whole[: len(whole) // 2], lambda whole: whole[:-1],
     lambda whole: whole.replace(b"1.93", b"1.92"), lambda whole: b"\0" * len(whole)],
    ids=["empty", "half", "all but the end", "another digit", "zeros"],
)  # fmt: skip
def test_an_unusable_record_is_set_aside_and_named_and_its_trial_is_wanted_again(
    results: Results, harm: Callable[[bytes], bytes]
) -> None:
    """Faults 4, 5 and 6."""
    whole = results.path(TRIAL).read_bytes()
    results.path(TRIAL).write_bytes(harm(whole))
    found = missing(toy_plan({TRIAL: {}}), results, None)
    assert [want.trial for want in found.train] == [TRIAL]
    assert results.path(TRIAL).read_bytes() == harm(whole), "to ask moves nothing"
    (line,) = set_aside(found, results)
    (kept,) = results.trials.glob("*.bad-*")
    assert f"{TRIAL}.json" in line
    assert kept.name in line
    assert kept.read_bytes() == harm(whole)
    again = missing(toy_plan({TRIAL: {}}), results, None)
    assert (again.unusable, [want.trial for want in again.train]) == ({}, [TRIAL])


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
    """Fault 3."""
    for name in (f".{TRIAL}.json.0123.tmp", f"{TRIAL}.json~", ".nfs0001", f"{TRIAL}.bad-00000000"):
        (results.trials / name).write_text("half a rec")
    assert results.read(TRIAL) == record()
    results.write(record(attempts=2))
    assert results.read(TRIAL) == record(attempts=2)


# Interrupted.


class Halting:
    """A process that writes a record, and stops for good where it is told to."""

    def __init__(self, step: str, when: str) -> None:
        self.step, self.when = step, when
        self._told, self._tell = os.pipe()

    def killed(self, act: Callable[[], None]) -> None:
        """Fork, act there up to the halt, and kill the child with SIGKILL."""
        child = os.fork()
        if child == 0:
            try:
                self._halt_at_steps()
                act()
            finally:
                os._exit(7)  # it never came to its halt
        os.close(self._tell)
        assert os.read(self._told, 1) == b"."
        os.close(self._told)
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

    def _halt(self, step: str, when: str) -> None:
        if (step, when) == (self.step, self.when):
            os.write(self._tell, b".")
            signal.pause()

    def _halt_at_steps(self) -> None:
        names = iter(["sync", "sync folder"])
        self._around(os, "fsync", lambda: next(names))
        self._around(os, "replace", lambda: "rename")
        opened = open

        def half(path: Path, mode: str) -> Any:
            self._halt("open", "before")
            file = opened(path, mode)
            self._halt("open", "after")
            write = file.write

            def slowly(content: bytes) -> None:
                write(content[: len(content) // 2])
                file.flush()
                self._halt("write", "in")
                write(content[len(content) // 2 :])
                file.flush()
                self._halt("write", "after")

            return Slow(file, slowly)

        ablations.store.files.open = half  # type: ignore[attr-defined]

    def _around(self, module: Any, name: str, step: Callable[[], str]) -> None:
        real = getattr(module, name)

        def act(*arguments: Any) -> None:
            named = step()
            self._halt(named, "before")
            real(*arguments)
            self._halt(named, "after")

        setattr(module, name, act)


class Slow:
    """A file that writes in its own way."""

    def __init__(self, file: Any, write: Callable[[bytes], None]) -> None:
        self._file, self.write = file, write

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


OLD = [("open", "before"), ("open", "after"), ("write", "in"), ("write", "after")]
OLD += [("sync", "before"), ("sync", "after"), ("rename", "before")]
NEW = [("rename", "after"), ("sync folder", "before"), ("sync folder", "after")]


@pytest.mark.parametrize(("step", "when"), [*OLD, *NEW], ids=" ".join)
def test_a_death_at_any_step_of_a_write_leaves_the_old_or_the_new_record(
    results: Results, step: str, when: str
) -> None:
    """Faults 1 and 3. What the dead writer left behind is ignored, and `clean` knows it."""
    Halting(step, when).killed(lambda: results.write(record(attempts=2)))
    held = record(attempts=2 if (step, when) in NEW else 1)
    assert results.read(TRIAL) == held
    assert missing(toy_plan({TRIAL: {}}), results, None).train == []
    results.write_plan(plan_document({}))
    left = [path for path in results.trials.iterdir() if path.name != f"{TRIAL}.json"]
    assert [each.path for each in litter(results)] == left
    assert len(left) == ((step, when) in OLD[1:])
    results.write(record(attempts=3))  # the next run goes on
    assert results.read(TRIAL) == record(attempts=3)


def test_a_death_at_any_moment_leaves_a_whole_record(results: Results) -> None:
    """Fault 1. Twenty writers, each killed the moment it has told of so many writes."""
    for writes in random.Random(1).choices(range(1, 9), k=20):
        told, tell = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                for attempts in itertools.count(2):
                    results.write(record(attempts=attempts))
                    os.write(tell, b".")
            finally:
                os._exit(7)
        os.close(tell)
        with open(told, "rb", buffering=0) as pipe:
            assert sum(len(pipe.read(1)) for _ in range(writes)) == writes
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        read = results.read(TRIAL)
        assert read is not None
        assert read == record(attempts=read.attempts)
        assert read.attempts > writes


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
