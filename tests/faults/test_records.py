"""Whatever happens to a record: old or new, never a mix; unusable ones are named and kept."""

from __future__ import annotations

import itertools
import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small import DATA, config, plan_document, trial_of
from sweep_jobs import toy_plan

from ablations.commands.clean import litter
from ablations.jobs import set_aside
from ablations.missing import missing
from ablations.store import files
from ablations.store.files import beside
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.schema import SCHEMA, NewerRecordError, RecordError, encode, with_checksum

TRIAL = "f302523445c7"
ATTEMPT = {"status": "killed", "reason": "signal 9", "seconds": 1.5}


def record(attempts: int = 1, trial: str = TRIAL) -> Record:
    return Record(
        trial,
        "ok",
        {"model": {"name": "transformer"}, "seed": 0},
        env={
            "code": {"toy": "1"},
            "earlier": [ATTEMPT, {**ATTEMPT, "seconds": None}],
            "sessions": {"a": {"threads": 1}},
        },
        attempts=attempts,
        parameters=9610,
        sources={"quality": {}},
        measurements=[
            Measurement("loss", "nats/token", 1.93, split="valid", coordinates={"step": 20}),
            Measurement("step_time", "s", samples=[0.031, 0.03], baseline_samples=[0.04, 0.041]),
        ],
        examples=[{"input": "naïve", "target": "N AY IY V", "output": "N EY V"}],
    )


@pytest.fixture
def results(tmp_path: Path) -> Results:
    results = Results(tmp_path)
    results.write(record())
    return results


def reason(results: Results, stored: bytes, trial: str = TRIAL) -> str:
    """The one line that a stored text is refused with."""
    results.path(trial).write_bytes(stored)
    with pytest.raises(RecordError) as error:
        results.read(trial)
    line = str(error.value)
    assert "\n" not in line
    assert len(line) < 300
    assert line.startswith(f"{trial}.json: ")
    return line


def having(**changes: Any) -> bytes:
    return encode({**record().to_dict(), **changes})


# Unusable.


def test_a_record_cut_anywhere_is_refused(results: Results) -> None:
    """Faults 4 and 5. From nothing at all to all but the last byte."""
    whole = results.path(TRIAL).read_bytes()
    for length in (*range(0, len(whole), 7), len(whole) - 2, len(whole) - 1):
        reason(results, whole[:length])


def test_a_flipped_bit_anywhere_is_seen(results: Results) -> None:
    """Fault 6. One bit in every byte in turn, and every bit of the first line.

    Also in the number of the schema: no flip makes a record of a newer version.
    """
    whole = results.path(TRIAL).read_bytes()
    for place in range(len(whole)):
        bits = range(8) if place <= whole.index(b"\n") else [(3 * place + 1) % 8]
        for bit in bits:
            damaged = bytearray(whole)
            damaged[place] ^= 1 << bit
            assert "newer" not in reason(results, bytes(damaged))


NO_RECORDS: list[tuple[bytes, str]] = [
    (b"", "JSON"),
    (b"\0" * 4096, "JSON"),
    (b"null", "not a record"),
    (b'{"name": "someone else\'s"}', "not a record"),
    (b'{"schema": "1"}', "not a record"),
    (b'{"schema": 0}', "not a record"),
    (b'{"schema": 2}', "an earlier version (schema 2, this one has 4)"),
    (b"\x80\x04\x95.", "not UTF-8"),
    (json.dumps(record().to_dict()).encode(), "damaged"),
    (having().replace(b"\n", b"\r\n"), "damaged"),
    (having() + b" ", "damaged"),
    (b"[" * 100_000, "JSON"),
    (b'{"schema": ' + b"9" * 5000 + b"}", "JSON"),
    (b'{"schema": NaN}', "NaN"),
    (having(schema=2), "an earlier version"),
]
WRONG_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"status": "great"}, "'status'"),
    ({"surprise": 1}, "'surprise': unknown field"),
    ({"env": {"code": 7}}, "'env.code'"),
    ({"env": {"earlier": [ATTEMPT, {"status": "killed"}]}}, "'env.earlier[1].reason': missing"),
    ({"env": {"sessions": {"a": 1}}}, "'env.sessions.a'"),
    ({"trained": False, "status": "stuck"}, "'trained': a model that was not trained"),
    ({"attempts": 0}, "'attempts'"),
    ({"parameters": -1}, "'parameters'"),
    ({"flops_per_token": "many"}, "'flops_per_token': expected a finite number, got 'many'"),
    ({"flops_per_token": 10**400}, "'flops_per_token'"),
    ({"examples": [{"input": "x"}, {"input": 3}]}, "'examples[1].input'"),
    ({"id": "../../x"}, "'id'"),
    ({"status": "oom", "reason": ""}, "'reason': a record that says oom"),
    (
        {"measurements": [{"source": "m", "metric": "loss", "value": 1}]},
        "'measurements[0].unit': missing",
    ),
]
WRONG_MEASUREMENTS: list[tuple[dict[str, Any], str]] = [
    ({"value": "low"}, ".value': expected a finite number, got 'low'"),
    ({}, "': measurement 'x' has neither a value nor a reason"),
    ({"value": 1, "no": 1}, ".no': unknown field"),
    (
        {"value": 1, "coordinates": {"step": ["ten"]}},
        ".coordinates.step': expected words or a finite number",
    ),
    ({"samples": [1, None]}, ".samples[1]': "),
    ({"samples": []}, ".samples': "),
    (
        {"samples": [1], "baseline_samples": [1], "baseline_again": [1, 2]},
        "': measurement 'x' has not one time",
    ),
    ({"values": [["x"]], "axes": {"a": [0], "b": [0]}}, "that do not fill its axes"),
    ({"values": [[1], 2], "axes": {"a": [0, 1], "b": [0]}}, "that do not fill its axes"),
    ({"values": [1]}, "that do not fill its axes"),
    ({"values": [1], "axes": {"": [0]}}, ".axes"),
]


def test_what_is_no_record_of_this_trial_is_refused_in_one_line_that_names_the_field(
    results: Results,
) -> None:
    for stored, words in NO_RECORDS:
        assert words in reason(results, stored)
    for changes, words in WRONG_FIELDS:
        assert f": {words}" in reason(results, having(**changes))
    for changes, words in WRONG_MEASUREMENTS:
        wrong = {"source": "m", "metric": "x", "unit": "1", **changes}
        line = reason(results, having(measurements=[*record().to_dict()["measurements"], wrong]))
        assert line.startswith(f"{TRIAL}.json: 'measurements[2]"), line
        assert words in line
    plain = record().to_dict()
    del plain["config"]
    assert "'config': missing" in reason(results, encode(plain))


def test_a_number_that_is_not_finite_is_refused_though_the_digest_fits(results: Results) -> None:
    whole = having(config={"x": 0.5}, flops_per_token=0.25)
    for word in (b"NaN", b"Infinity", b"-Infinity"):
        for number in (b"0.5", b"0.25", b"1.93"):
            rest = whole.partition(b"\n")[2].replace(number, word)
            reason(results, with_checksum(SCHEMA, rest))


def test_a_record_of_a_newer_version_is_refused_and_never_set_aside(results: Results) -> None:
    """Fault 29. Whoever wrote it can still read it."""
    for stored in (
        encode({"schema": SCHEMA + 1, "measurements": [], "shape": "unknown"}),
        having(schema=10**8),
        b'{"version": "9", "schema": 5}',
    ):
        assert "newer version" in reason(results, stored)
        with pytest.raises(NewerRecordError):
            missing(toy_plan({TRIAL: {}}), results, None)
        assert [path.name for path in results.trials.iterdir()] == [f"{TRIAL}.json"]
        assert results.path(TRIAL).read_bytes() == stored


def test_a_record_of_another_trial_is_refused_whether_it_says_so_or_not(results: Results) -> None:
    """Its settings, data and seed are hashed anew: they must give the id that it is kept under."""
    results.write(record(trial="0123456789ab"))
    assert "0123456789ab" in reason(results, results.path("0123456789ab").read_bytes())
    own = config()
    trial = trial_of(own)
    results.write(Record(trial, "ok", own, data=DATA))
    others: list[dict[str, Any]] = [
        {"config": config(seed=1)},
        {"config": config("without")},
        {"data": {**DATA, "sha256": "1"}},
        {"trained": False},
    ]
    for other in others:
        plain = {**Record(trial, "ok", own, data=DATA).to_dict(), **other}
        line = reason(results, encode(plain), trial)
        assert f"'id': says {trial}, but its settings are of " in line
        with pytest.raises(RecordError, match="its settings are of"):
            results.write(Record.from_dict(plain))


# Kept.


def test_an_unusable_record_is_set_aside_and_named_and_its_trial_is_wanted_again(
    results: Results,
) -> None:
    """Faults 4, 5 and 6. Also where one is set aside already, no byte of it is lost."""
    whole = results.path(TRIAL).read_bytes()
    harmed = [b"", whole[: len(whole) // 2], whole.replace(b"1.93", b"1.92"), b"\0" * len(whole)]
    for stored in harmed:
        results.path(TRIAL).write_bytes(stored)
        found = missing(toy_plan({TRIAL: {}}), results, None)
        assert [trial.id for trial in found.train] == [TRIAL]
        assert results.path(TRIAL).read_bytes() == stored, "to ask moves nothing"
        before = set(results.trials.glob("*.bad-*"))
        (line,) = set_aside(found, results)
        (kept,) = set(results.trials.glob("*.bad-*")) - before
        assert f"{TRIAL}.json" in line
        assert line.endswith(f"; kept as {kept.name}")
        assert kept.read_bytes() == stored
        again = missing(toy_plan({TRIAL: {}}), results, None)
        assert (again.unusable, [trial.id for trial in again.train]) == ({}, [TRIAL])
    assert len(list(results.trials.iterdir())) == len(harmed)
    results.write(record())
    assert results.read(TRIAL) == record()


def test_a_temporary_file_is_left_once_it_is_an_hour_older_than_a_new_one_of_its_folder(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 48. Whose writer may be elsewhere: neither its process nor this clock tells."""
    results.write_plan(plan_document({}))
    writing = beside(results.path(TRIAL))
    writing.write_text("half a rec")
    for clock in (0.0, 2e9):
        monkeypatch.setattr(time, "time", lambda clock=clock: clock)
        assert list(litter(results)) == []
    then = writing.stat().st_mtime - 3700
    os.utime(writing, (then, then))
    assert [path for path, _ in litter(results)] == [writing]
    assert len(list(results.trials.iterdir())) == 2  # to look leaves nothing behind


# Interrupted.


class Slow:
    """A file that is written in halves."""

    def __init__(self, file: Any, reach: Callable[[], None]) -> None:
        self._file, self._reach = file, reach

    def write(self, content: bytes) -> None:
        for half in (content[: len(content) // 2], content[len(content) // 2 :]):
            self._file.write(half)
            self._file.flush()
            self._reach()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def is_killed(place: int, act: Callable[[], None]) -> bool:
    """Fork, act there, and die by SIGKILL at so many steps of writing; whether it came so far."""
    child = os.fork()
    if child == 0:
        steps = itertools.count()

        def reach() -> None:
            if next(steps) == place:
                os.kill(os.getpid(), signal.SIGKILL)

        def around(real: Callable[..., Any]) -> Callable[..., Any]:
            return lambda *given: (reach(), real(*given), reach())[1]

        try:
            os.fsync, os.replace = around(os.fsync), around(os.replace)
            opened = around(open)
            files.open = lambda *given: Slow(opened(*given), reach)  # type: ignore[attr-defined]
            act()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def test_a_death_at_any_step_of_a_write_leaves_the_old_or_the_new_record(results: Results) -> None:
    """Faults 1 and 3. What the dead writer left behind is ignored.

    Steps: open, both halves, sync, rename, sync of the folder; before each, and after.
    """
    held, is_dead = [], True
    while is_dead:
        results.write(record(attempts=1))
        is_dead = is_killed(len(held), lambda: results.write(record(attempts=2)))
        read = results.read(TRIAL)
        assert read in (record(attempts=1), record(attempts=2))
        held.append(read.attempts)
        assert missing(toy_plan({TRIAL: {}}), results, None).train == []
    assert held == [1] * 7 + [2] * 4
    assert len(list(results.trials.iterdir())) == 1 + 6
