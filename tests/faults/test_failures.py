"""Whatever fails later: what is known of a trial stays, and every attempt is told."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small import held
from sweep_jobs import toy_plan
from torch import nn

from ablations.benchmark_jobs import BenchmarkJob
from ablations.commands import main
from ablations.jobs import TIMING, RunConfig, TrainingJob
from ablations.launch import Event, Outcome
from ablations.launch.local import LocalLauncher
from ablations.leases import Leases
from ablations.missing import missing
from ablations.plan import make_plan
from ablations.runner import run
from ablations.store.identity import canonical_json
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.store.stamp import short
from ablations.tasks.task import MOST, announce, announced
from ablations.train.checkpoint import save_weights, stamp_for

Ask = Callable[..., str]
Sweep = Callable[..., Counter[str]]
TOY, ANOTHER = {"toy": "1"}, {"model/toy.py": "2"}  # which code made a record; one is gone
LOSS = Measurement("loss", "nats/token", 0.25, split="valid")


def good(results: Results, trial: str, **changes: Any) -> Record:
    """A trained trial's record, written."""
    record = Record(trial, "ok", {"seed": 0}, env={"code": TOY}, measurements=[LOSS])
    results.write(replace(record, **changes))
    return held(results, trial)


def test_a_retraining_that_fails_leaves_the_good_record_and_a_note(
    results: Results, sweep: Sweep
) -> None:
    good(results, "a", env={"code": ANOTHER})
    assert sweep({"a": {"do": "die"}, "b": {}}, rerun="stale") == {"killed": 1, "ok": 1}
    record = held(results, "a")
    assert (record.status, record.measurements) == ("ok", [LOSS])
    assert list(record.failures) == ["retraining"], "it is told once"
    assert record.failures["retraining"].startswith("killed (")
    assert [attempt["status"] for attempt in record.env["earlier"]] == ["killed"] * 3
    assert sweep({"a": {}}, rerun="stale") == {"ok": 1}
    assert held(results, "a").failures == {}


class Interrupted(LocalLauncher):
    """Ctrl-C comes when the first outcome has been read."""

    def events(self) -> Any:
        seen: list[Event] = []
        for event in super().events():
            if seen:
                raise KeyboardInterrupt
            seen += [event] if isinstance(event, Outcome) else []
            yield event


def test_a_sweep_stopped_between_two_tries_forgets_neither(results: Results, sweep: Sweep) -> None:
    plan = toy_plan({"a": {"do": "die"}})
    with Interrupted(1, preload=["toy_trials"]) as launcher, pytest.raises(KeyboardInterrupt):
        run(RunConfig(plan, results, "cpu", call="toy_trials:train", poll=0.0), launcher)
    cut = held(results, "a")
    assert (cut.status, cut.attempts) == ("killed", 1)
    assert sweep({"a": {}}) == {"ok": 1}, "it is tried again without being asked for"
    record = held(results, "a")
    assert (record.status, record.attempts) == ("ok", 2)
    assert [attempt["status"] for attempt in record.env["earlier"]] == ["killed"]


def training(results: Results, *sources: str) -> TrainingJob:
    plan = toy_plan({"a": {}}, *sources)
    made = TrainingJob([plan.trials["a"]], RunConfig(plan, results, "cpu", []))
    assert made.job()
    return made


def saved(work: TrainingJob | BenchmarkJob, outcome: Outcome) -> tuple[str, str]:
    """How it ended, and the note."""
    (ended,) = work.save(outcome, lambda name: True)
    return ended.status, ended.note


def test_a_worker_that_returns_nonsense_spoils_no_record(results: Results) -> None:
    good(results, "a")
    save_weights(nn.Linear(1, 1), results.weights("a"), stamp_for(held(results, "a")))
    whole = Record("a", "ok", {}).to_dict()
    for value in ({}, 7, {"schema": 2}, {**whole, "data": {"size": float("nan")}}):
        status, note = saved(training(results, "quality"), Outcome("a", "done", {"a": value}))
        assert status == "error"
        assert note.startswith("no record: ")
        record = held(results, "a")
        assert (record.status, record.measurements) == ("ok", [LOSS])
        assert record.failures["measuring"].startswith("error (no record: ")


def test_weights_of_a_retraining_that_was_cut_are_not_measured_for_the_old_record(
    results: Results,
) -> None:
    held = good(results, "a")
    plan = toy_plan({"a": {}}, "quality")
    for code, is_measured in ((TOY, True), (ANOTHER, False)):
        stamp = {**stamp_for(held), "code": short(code)}
        save_weights(nn.Linear(1, 1), results.weights("a"), stamp)
        lacks = missing(plan, results, None)
        assert (len(lacks.measure), len(lacks.train)) == (is_measured, not is_measured)


def test_a_measuring_that_failed_is_told_once_and_no_longer_when_it_has_succeeded(
    results: Results,
) -> None:
    past = {"retraining": "killed (SIGKILL)"}
    weights = stamp_for(good(results, "a", failures=past))
    save_weights(nn.Linear(1, 1), results.weights("a"), weights)
    for _ in range(3):
        failed = Outcome("a", "error", reason="bad weights; delete them; or not")
        saved(training(results, "quality"), failed)
    told = {**past, "measuring": "error (bad weights; delete them; or not)"}
    assert held(results, "a").failures == told
    value = {**held(results, "a").to_dict(), "sources": {"quality": {}}}
    assert saved(training(results, "quality"), Outcome("a", "done", {"a": value}))[0] == "ok"
    assert held(results, "a").failures == past


def test_a_record_that_another_has_written_meanwhile_stays(results: Results) -> None:
    late = training(results)
    winner = good(results, "a")
    mine = {"a": Record("a", "ok", {"seed": 0}).to_dict()}
    assert saved(late, Outcome("a", "done", mine))[0] == "dropped"
    assert held(results, "a") == winner


def test_a_benchmark_that_fails_is_told_by_the_records_of_its_trials(results: Results) -> None:
    good(results, "a")
    results.write(Record("b", "error", {"seed": 0}, reason="boom", env={"code": TOY}))
    plan = toy_plan({"a": {}, "b": {}})
    timings = {("throughput", "a"): [{"length": 16}]}
    plan.add([replace(trial, timings=timings) for trial in plan.trials.values()])
    session = BenchmarkJob("throughput", "a", ["a", "b"], RunConfig(plan, results, "cpu", []))
    for outcome in (
        Outcome("s", "killed", reason="SIGKILL"),
        Outcome("s", "done", {"measurements": {"a": [{"metric": "step_time"}]}}),
        Outcome("s", "done", {"measurements": 7}),
    ):
        status, _ = saved(session, outcome)
        assert status == ("error" if outcome.status == "done" else "killed")
        record = held(results, "a")
        assert (record.status, record.measurements, record.sources) == ("ok", [LOSS], {})
        assert record.failures["throughput"].startswith(f"{status} (")
        assert held(results, "b").reason == "boom", "what was not to be timed is left alone"
    times = {"metric": "step_time", "unit": "s", "samples": [1.0], "baseline_samples": [1.0]}
    times |= {"session": "1", "baseline": "a", "coordinates": {"length": 16}}
    taken = {"session": "1", "env": {}, "measurements": {"a": [times]}}
    assert saved(session, Outcome("s", "done", taken))[0] == "timed"
    timed = held(results, "a")
    assert (timed.failures, timed.sources) == ({}, {"throughput": {}})
    assert timed.timed("throughput", "a") == {canonical_json({"length": 16})}
    saved(session, Outcome("s", "done", taken))
    assert held(results, "a") == timed, "nothing is timed twice"


def test_a_session_in_which_nothing_was_timed_is_an_error(results: Results) -> None:
    good(results, "a")
    plan = toy_plan({"a": {}})
    at = {"length": 16}
    plan.add([replace(plan.trials["a"], timings={("throughput", "a"): [at]})])
    session = BenchmarkJob("throughput", "a", ["a"], RunConfig(plan, results, "cpu", []))
    missed = {"metric": "step_time", "unit": "s", "reason": "out of memory", "coordinates": at}
    taken = {"session": "1", "env": {}, "measurements": {"a": [missed]}}
    ((_, _, status, _, reason),) = session.save(Outcome("s", "done", taken), lambda name: True)
    assert (status, reason) == ("error", "nothing could be timed: out of memory")


def test_nothing_is_trained_beside_another_sweeps_timing(
    results: Results, sweep: Sweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = []

    def wait(seconds: float) -> None:
        waits.append(results.read("a"))
        if len(waits) == 3:
            other.release_all()

    monkeypatch.setattr("ablations.runner.time", SimpleNamespace(sleep=wait, monotonic=lambda: 0.0))
    with Leases(results.root / "leases") as other:
        assert other.take(TIMING)
        assert sweep({"a": {}}) == {"ok": 1}
    assert waits == [None, None, None]


# A model that is too large for this machine.

TRILLIONS = {"model.d_model": 1_000_000}  # of weights


@pytest.fixture
def file(ask: Ask) -> str:
    return ask(variants={"with": {}, "huge": TRILLIONS}, baseline="huge")


def test_one_variant_too_large_to_allocate_is_out_of_memory_and_the_others_are_trained(
    file: str, results: Results, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault 46."""
    folder = ("--profile", "smoke", "--seeds", "0-0", "--results", str(results.root))
    assert main(["run", file, *folder, "--jobs", "2", "--device", "cpu"]) == 1
    assert "days" not in capfd.readouterr().err, "what cannot be trained takes no time"
    plan = make_plan([file], "smoke", {}, [0])
    records = {want.title: results.read(want.id) for want in plan.trials.values()}
    ended = {title: record.status for title, record in records.items() if record}
    assert ended["small:huge seed 0"] == "oom"
    assert ended["small:with seed 0"] in ("ok", "stuck")


def test_a_plan_answers_though_a_variant_is_too_large_to_be_tried(
    file: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Fault 46."""
    folder = ["--results", str(tmp_path / "no")]
    words = ["plan", file, "--profile", "smoke", "--seeds", "0-0", *folder]
    assert main([*words, "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    each = {row["variant"]: row["seconds_per_trial"] for row in found["variants"]}
    assert each["huge"] is None
    assert found["training"] <= each["with"]
    assert (found["unknown"], [row["left"] for row in found["variants"]]) == (1, [1, 1])
    assert main(words) == 0
    out = capfd.readouterr().out
    assert " unknown " in out
    assert "Time unknown: 1 trials" in out


def test_variants_that_are_all_too_large_do_not_end_a_sweep(results: Results, sweep: Sweep) -> None:
    """Fault 46. The next may be smaller."""
    large = {f"t{number}": {"do": "memory", "kind": f"{number}"} for number in range(4)}
    assert sweep(large | {"small": {"kind": "small"}}) == {"oom": 4, "ok": 1}


# However many tasks a sweep has.

LONGEST = 128 * 1024  # bytes of one string of an environment, on Linux


def options(number: int) -> dict[str, int]:
    """Those of one of many tasks."""
    return {"keys": 8 + number % 10, "values": 2 + number // 10 % 15, "distance": number // 150}


def tasks(number: int) -> list[dict[str, Any]]:
    made = [{"name": "recall", "note": "x" * 60, **options(each)} for each in range(number)]
    assert len({canonical_json(task) for task in made}) == number
    return made


def test_trials_of_fifteen_hundred_tasks_are_run(results: Results, sweep: Sweep) -> None:
    """Fault 49."""
    many = tasks(1500)
    assert sum(len(canonical_json(task)) for task in many) > LONGEST
    trials = {f"t{number}": {"task": many[number]} for number in range(0, 1500, 300)}
    with announce(many):
        assert sweep(trials) == {"ok": 5}


def test_the_tasks_of_most_trials_are_read_beforehand_and_not_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Fault 49. Each would stay in the memory of the server."""
    monkeypatch.delenv("ABLATIONS_TASKS", raising=False)
    assert announced() == []
    many = tasks(1500)
    with announce([*many, *many[-3:]]):
        assert set(announced()[:3]) == {canonical_json(task) for task in many[-3:]}
        assert len(announced()) == MOST
        told = Path(os.environ["ABLATIONS_TASKS"])
        assert told.is_file()
    assert announced() == []
    assert not told.exists()
