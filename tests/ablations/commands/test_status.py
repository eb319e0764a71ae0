"""A look at a results folder: what is done, what runs, what is left, and for how long."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small import plan_document

from ablations.commands import status as command
from ablations.leases import Leases
from ablations.store.record import Record
from ablations.store.results import Results

TRIALS = [f"{digit}" * 12 for digit in range(6)]
CONFIG = {"model": {"name": "m"}, "task": {}, "train": {}}


NOW, OTHER = {}, {"model/norms.py": "other"}  # which code made a record


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Six planned trials of growing size, in two ablations that share one."""
    results = Results(tmp_path / "out")
    cells = [{"trial": trial, "work": 10.0 * (n + 1)} for n, trial in enumerate(TRIALS)]
    results.write_plan(plan_document({"one": cells[:4], "two": cells[3:]}))
    return results


@pytest.fixture
def leases(results: Results) -> Iterator[Leases]:
    with Leases(results.root / "leases") as leases:
        yield leases


def write(results: Results, number: int, status: str = "ok", **changes: Any) -> None:
    env = {"code": NOW, "seconds": 3.0} | changes.pop("env", {})
    results.write(Record(TRIALS[number], status, CONFIG, env=env, **changes))


def look(results: Results, *names: str) -> dict[str, Any]:
    """What is not nothing."""
    found = command.look(results, names).document()
    return {key: value for key, value in found.items() if value}


def test_what_has_no_record_waits_or_runs(results: Results, leases: Leases) -> None:
    write(results, 0)
    leases.take(TRIALS[1], TRIALS[2])
    leases.take("throughput:abc", "timing:here")  # no trials
    found = look(results)
    assert {key: found[key] for key in ("ok", "running", "waiting")} == {
        "ok": 1, "running": 2, "waiting": 3,
    }  # fmt: skip
    leases.release_all()
    assert (look(results).get("running"), look(results)["waiting"]) == (None, 5)


def test_a_dead_owner_runs_nothing(results: Results) -> None:
    child = os.fork()
    if child == 0:
        leases = Leases(results.root / "leases")
        leases.take(TRIALS[0])
        os._exit(0)
    os.waitpid(child, 0)
    assert (results.root / "leases" / TRIALS[0]).exists()
    assert look(results)["waiting"] == 6


def test_a_trial_of_two_ablations_is_counted_once(results: Results) -> None:
    write(results, 3)
    assert look(results)["ok"] == 1
    assert [look(results, name)["ok"] for name in ("one", "two")] == [1, 1]
    assert look(results, "two")["waiting"] == 2


def test_the_time_left_is_weighed_by_size(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5}, raising=False)
    assert "seconds_left" not in look(results)  # nothing is known yet
    write(results, 0, env={"seconds": 30.0})  # 3 s for each unit of size
    write(results, 1, "killed", reason="no luck", env={"seconds": 1.0})  # which says nothing
    rest = 3.0 * (30 + 40 + 50 + 60)
    assert look(results)["seconds_left"] == pytest.approx(rest / 2)


def test_as_many_as_run_share_the_rest(results: Results, leases: Leases) -> None:
    write(results, 0, env={"seconds": 30.0})
    leases.take(TRIALS[4], TRIALS[5])
    rest = 3.0 * (20 + 30 + 40 + 50 + 60)
    assert look(results)["seconds_left"] == pytest.approx(rest / 2)


def test_reasons_are_one_line_each_with_the_attempt(results: Results) -> None:
    write(results, 0, "error", reason="ValueError: no\nTraceback", attempts=3)
    results.path(TRIALS[1]).write_text("{")
    first, second = look(results)["reasons"]
    assert first == f"{TRIALS[0]} error: ValueError: no (attempt 3)"
    assert second.startswith(f"{TRIALS[1]}.json: ")
    assert look(results)["waiting"] == 5


def test_people_are_told_which_of_the_records_are_stale(results: Results) -> None:
    for number, status in enumerate(("ok", "ok", "ok", "diverged", "stuck")):
        write(results, number, status, env={"code": NOW if number == 4 else OTHER})
    write(results, 1)
    told = command.look(results)
    assert told.counts["stale"] == 3
    words = "3 ok (2 stale), 1 diverged (1 stale), 1 stuck, 1 waiting"
    assert told.text().partition(";")[0] == words


@pytest.fixture
def measured(results: Results) -> Results:
    """Two trials, of which one ablation asks for a score and the other for the time as well."""
    cells = [{"trial": trial, "measures": ["quality"]} for trial in TRIALS[:2]]
    timed = {**cells[1], "measures": ["quality", "throughput"]}
    results.write_plan(plan_document({"one": cells, "two": [timed]}))
    return results


def test_a_trial_is_done_when_all_that_is_asked_of_it_is_measured(measured: Results) -> None:
    for number in (0, 1):
        write(measured, number, measures={"quality": {}})
    for names, lacking in (((), 1), (("one",), 0), (("two",), 1)):
        state = command.look(measured, names)
        assert state.unmeasured == lacking
        assert ("; 1 not all measured" in state.text()) == bool(lacking)
    write(measured, 1, measures={"throughput": {}, "quality": {}, "beam": {}})
    assert command.look(measured).unmeasured == 0
    for status in ("error", "oom", "timeout", "killed"):  # of what has failed nothing is asked
        for number in (0, 1):
            write(measured, number, status, reason="bad luck")
        assert command.look(measured).unmeasured == 0, status
