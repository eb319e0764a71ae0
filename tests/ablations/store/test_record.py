"""What is known of a trial, written once as strict JSON and read back as it was."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small import plan_document

from ablations.store.files import write_atomic
from ablations.store.record import RECORD, Measurement, Record
from ablations.store.results import Results
from ablations.store.schema import STATUSES, RecordError, decode, encode

TRIAL = "f302523445c7"


def record(**changes: Any) -> Record:
    known: dict[str, Any] = {
        "config": {"model": {"name": "transformer", "d_head": None, "eps": 1e-9}, "seed": 0},
        "parameters": 241066,
        "flops_per_token": 1.4e6,
        "env": {"commit": None, "dirty": False, "threads": 1},
        "data": {"task": "g2p", "sha256": "0"},
        "per_example": {"per": [0, 1, None, 2]},
        "sources": {"quality": {"ablations/evaluations/quality.py": "0a"}},
        "measurements": [
            Measurement("loss", "nats/token", 1.93, split="valid", coordinates={"step": 2000}),
            Measurement("step_time", "s", coordinates={"length": 16, "pass": "training"},
                    samples=[0.03], baseline_samples=[0.04], session="a", baseline="b"),
            Measurement(
                "attention",
                "probability",
                axes={"query": ["r"], "key": ["r", "h"]},
                values=[[0.5, 0.5]],
            ),
            Measurement("peak_memory", "bytes", reason="out of memory"),
        ],
        "examples": [{"input": "naïve", "target": "N AY IY V", "output": "…"}],
        **changes,
    }  # fmt: skip
    return Record(TRIAL, "ok", **known)


# There and back.


READINGS = st.builds(
    Measurement,
    metric=st.text(min_size=1, max_size=8),
    unit=st.text(min_size=1, max_size=8),
    value=st.one_of(st.floats(), st.integers(-(2**60), 2**60)),
    split=st.one_of(st.none(), st.sampled_from(["train", "valid", "test"])),
    coordinates=st.dictionaries(st.sampled_from(["step", "length"]), st.integers(0, 10**6)),
    samples=st.one_of(st.none(), st.lists(st.floats(0, 1), min_size=1, max_size=3)),
    reason=st.one_of(st.none(), st.text(min_size=1)),
)


@given(st.lists(READINGS, max_size=4), st.sampled_from(STATUSES), st.text(min_size=1))
def test_whatever_was_read_survives_the_way_through_json(
    measurements: list[Measurement], status: str, reason: str
) -> None:
    whole = Record(TRIAL, status, {}, reason=reason, measurements=measurements)
    text = json.dumps(whole.to_dict(), allow_nan=False)
    assert Record.from_dict(json.loads(text)) == whole


HALVES = st.characters(categories=["Cs"])  # half a character, as in a name that is not UTF-8


@given(st.text(st.characters() | HALVES, min_size=1))
def test_any_words_can_be_kept_and_half_a_character_becomes_a_question_mark(words: str) -> None:
    kept = decode(encode(record(reason=words, examples=[{"input": words}]).to_dict()), RECORD)
    told = words.encode("utf-8", "replace").decode()
    assert kept == record(reason=told, examples=[{"input": told}])


# Strict JSON.


def test_an_array_with_what_is_no_number_is_refused_where_it_is_made() -> None:
    wrong: list[dict[str, Any]] = [
        {"samples": [0.1, math.nan], "baseline_samples": [0.1, 0.1]},
        {"samples": [0.1, 0.1], "baseline_samples": [math.inf, 0.1]},
        {"values": [[0.5, math.nan]], "axes": {"query": [0], "key": [0, 1]}},
    ]
    for measurement in wrong:
        with pytest.raises(ValueError, match="finite"):
            Measurement("x", "1", **measurement)


def test_a_value_that_is_no_number_is_null_with_a_reason(results: Results) -> None:
    for value in (math.nan, math.inf, -math.inf):
        results.write(record(measurements=[Measurement("loss", "nats/token", value)]))
        read = results.read(TRIAL)
        assert read is not None
        assert read.measurements[0].value is None
        assert str(value) in str(read.measurements[0].reason)
        told = Measurement("loss", "nats/token", value, reason="diverged")
        assert (told.value, told.reason) == (None, "diverged")


def test_what_strict_json_cannot_say_is_refused_in_one_line(results: Results) -> None:
    """And leaves the old record."""
    results.write(record())
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    for value in (math.nan, -math.inf, {3}, b"x", object(), deep):
        kept = record(env={"share": [0.5, {"of\nall": value}]})
        for act in (
            lambda kept=kept: results.write(kept),
            lambda kept=kept: Record.from_dict(kept.to_dict()),
        ):
            with pytest.raises(RecordError, match="JSON") as error:
                act()
            assert "\n" not in str(error.value)
            assert len(str(error.value)) < 300
    assert results.read(TRIAL) == record()
    assert len(list(results.trials.iterdir())) == 1


# Whole or not at all.


@pytest.mark.parametrize(
    ("step", "error"),
    [("fsync", OSError(28, "No space left on device")), ("replace", KeyboardInterrupt())],
)
def test_a_write_that_fails_leaves_the_old_text_and_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    """Fault 7 where no file system can be mounted."""
    file = tmp_path / "file"
    write_atomic(file, "old")

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomic(file, "new")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert file.read_text() == "old"


def test_what_is_no_id_is_never_a_path(results: Results) -> None:
    for trial in ("", ".", "..", "../x", "/etc/x", "a/b", "a.b", "a\0b", "a\n", "é", "x" * 101):
        for act in (results.read, results.path):
            with pytest.raises(RecordError, match="no trial id"):
                act(trial)
        with pytest.raises(RecordError, match="'id'"):
            results.write(Record(trial, "ok", {}))
    assert not results.root.exists()


# The plan.


def entry(**changes: Any) -> dict[str, Any]:
    """One table of a plan, as every plan has it."""
    (table,) = plan_document({"norm": [{"id": TRIAL}]})["experiments"].values()
    return {**table, **changes}


def planned(**changes: Any) -> dict[str, Any]:
    return {"profile": "smoke", "experiments": {"naïve": entry(**changes)}}


def test_a_plan_is_read_back_as_it_was_written(results: Results) -> None:
    claim = {"id": "a", "statement": "b", "source": "c", "predicts": [{"word": "x"}], "require": []}
    quantity = {"unit": "1", "better": "lower", "title": "x", "repeats": "seeds", "matters": 0.1}
    plan = planned(claims=[claim], metrics={"x": quantity}, seed_batches=[[300, 301], [302]])
    results.write_plan(plan)
    assert results.read_plan() == plan


CELL = entry()["trials"][0]


def test_a_plan_that_is_none_is_never_written_and_never_read(results: Results) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"question": 3}, "question'"),
        ({"seeds": [1]}, "seeds': unknown field"),
        ({"seed_batches": [1]}, "seed_batches[0]'"),
        ({"claims": [{"id": "a"}]}, "claims[0].statement': missing"),
        ({"metric": {"name": "per"}}, "metric.unit': missing"),
        ({"trials": [{**CELL, "id": "../x"}]}, "trials[0].id'"),
        ({"trials": [{**CELL, "work": -1.0}]}, "trials[0].work'"),
        ({"trials": [{**CELL, "seed": True}]}, "trials[0].seed'"),
        ({"trials": [{**CELL, "pace": 1}]}, "trials[0].pace': unknown field"),
    ]
    for changes, words in wrong:
        with pytest.raises(RecordError) as error:
            results.write_plan(planned(**changes))
        assert str(error.value).startswith(f"'experiments.naïve.{words}")
        assert not results.plan_file.exists()
        results.root.mkdir(exist_ok=True)
        results.plan_file.write_bytes(encode(planned(**changes)))
        with pytest.raises(RecordError) as error:
            results.read_plan()
        assert f"{results.plan_file}: 'experiments.naïve.{words}" in str(error.value)
        results.plan_file.unlink()
