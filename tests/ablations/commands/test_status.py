"""A look at a results folder: what is done, what runs, what is left, and for how long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from small import plan_document

from ablations.commands import main
from ablations.commands import status as command
from ablations.commands.status import Picture, Watched
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.store.schema import seal
from ablations.sweep.lease import Leases
from model.config import ConfigError

ROOT = Path(__file__).parents[3]
TRIALS = [f"{digit}" * 12 for digit in range(6)]
CONFIG = {"model": {"name": "m"}, "task": {}, "train": {}}


NOW, OTHER = {}, {"model/norm.py": "other"}  # which code made a record


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
    return {key: value for key, value in Watched(results).look(names).document().items() if value}


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


def test_a_trial_that_is_made_anew_runs_and_is_not_counted_twice(
    results: Results, leases: Leases
) -> None:
    write(results, 0, "error", reason="bad luck")
    leases.take(TRIALS[0])
    found = Watched(results).look().counts
    assert (found["error"], found["running"], sum(found.values())) == (0, 1, 6)


def test_a_dead_owner_runs_nothing(results: Results) -> None:
    child = os.fork()
    if child == 0:
        Leases(results.root / "leases").take(TRIALS[0])
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


def test_what_runs_shares_the_rest_and_has_done_a_part(results: Results) -> None:
    hour_ago = time.time() - 60.0
    write(results, 0, env={"seconds": 30.0})
    with Leases(results.root / "leases", clock=lambda: hour_ago, patience=1e9) as leases:
        leases.take(TRIALS[4], TRIALS[5])
        os.utime(results.root / "leases" / TRIALS[4])
        os.utime(results.root / "leases" / TRIALS[5])
        left = look(results)["seconds_left"]
    whole = 3.0 * (20 + 30 + 40 + 50 + 60)
    assert left == pytest.approx((whole - 2 * 60) / 2, abs=5)


def test_reasons_are_one_line_each_with_the_attempt(results: Results) -> None:
    write(results, 0, "error", reason="ValueError: no\nTraceback", attempts=3)
    results.path(TRIALS[1]).write_text("{")
    first, second = look(results)["reasons"]
    assert first == f"{TRIALS[0]} error: ValueError: no (attempt 3)"
    assert second.startswith(f"{TRIALS[1]}.json: ")
    assert look(results)["waiting"] == 5


def test_a_record_of_other_code_is_stale_also_after_another_look(results: Results) -> None:
    """Fault 28 for who looks."""
    write(results, 0, env={"code": OTHER})
    watched = Watched(results)
    assert [watched.look().counts["stale"] for _ in range(2)] == [1, 1]
    write(results, 0)
    assert watched.look().counts["stale"] == 0


def test_people_are_told_which_of_the_records_are_stale(results: Results) -> None:
    for number, status in enumerate(("ok", "ok", "ok", "diverged", "stuck")):
        write(results, number, status, env={"code": NOW if number == 4 else OTHER})
    write(results, 1)
    told = Watched(results).look()
    assert told.counts["stale"] == 3
    words = "3 ok (2 stale), 1 diverged (1 stale), 1 stuck, 1 waiting"
    assert told.text().partition(";")[0] == words


def test_a_record_whose_parts_are_not_known_here_is_not_called_stale(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ConfigError(["no such part"])

    monkeypatch.setattr("ablations.plan.code.code", refuse)
    write(results, 0)
    assert "stale" not in look(results)


def test_what_was_set_aside_is_named(results: Results) -> None:
    write(results, 0)
    kept = results.set_aside(TRIALS[0])
    state = Watched(results).look()
    assert state.set_aside == [kept.name]
    assert f"set aside, unusable: {kept.name}" in state.text()


def test_a_second_look_reads_what_has_changed_and_nothing_else(
    results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    head = results.read

    def count(trial: str) -> Record | None:
        read.append(trial)
        return head(trial)

    monkeypatch.setattr(results, "head", count)
    for number in range(3):
        write(results, number)
    watched = Watched(results)
    watched.look()
    assert read == TRIALS[:3]
    write(results, 1, "diverged")
    assert watched.look().counts["diverged"] == 1
    assert read == [*TRIALS[:3], TRIALS[1]]


@pytest.mark.parametrize(
    "plan",
    [{}, {"ablations": []}, {"ablations": {"a": {}}},
     plan_document({"a": []}, cells=[3]), plan_document({"a": [{"trial": "x", "work": "much"}]}),
     plan_document({"a": [{"trial": "../../secret"}]})],
    ids=lambda plan: repr(plan)[-40:],
)  # fmt: skip
def test_a_plan_of_another_shape_is_one_line(
    results: Results, plan: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results.plan_file.write_bytes(seal({"profile": "smoke", **plan}))
    for name in ("status", "clean"):
        assert main([name, "--results", str(results.root)]) == 2
        said = capsys.readouterr().err
        assert said.startswith(f"{results.plan_file}: ")
        assert said.endswith("; move it away and run again: no record is lost\n")
        assert said.count("\n") == 1


def test_many_reasons_are_cut_for_people_and_whole_as_json() -> None:
    counts = dict.fromkeys(command.STATES, 0) | {"error": 100}
    state = Picture(counts, {}, 0, False, False, 0.0, [f"reason {n}" for n in range(100)], [])
    assert len(state.text().splitlines()) < 30
    assert "and 80 more" in state.text()
    assert len(state.document()["reasons"]) == 100


def test_following_tells_of_each_change_and_ends_when_nothing_is_left(
    results: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = iter([None, 0, None, 1, 2, 3, 4, 5, None])

    def work(seconds: float) -> None:
        assert seconds == command.EVERY
        if (number := next(numbers)) is not None:
            write(results, number)

    monkeypatch.setattr(time, "sleep", work)
    assert main(["status", "--follow", "--results", str(results.root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        "6 waiting", *(f"{n} ok, {6 - n} waiting" for n in range(1, 6)), "6 ok",
    ]  # fmt: skip


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
        state = Watched(measured).look(names)
        assert (state.unmeasured, state.is_over) == (lacking, not lacking)
        assert ("; 1 not all measured" in state.text()) == bool(lacking)
    write(measured, 1, measures={"throughput": {}, "quality": {}, "beam": {}})
    assert Watched(measured).look().is_over


def test_a_measure_that_failed_is_not_waited_for(measured: Results) -> None:
    for number in (0, 1):
        write(measured, number, failures={"quality": "RuntimeError: no room"})
    state = Watched(measured).look()
    assert (state.unmeasured, state.is_over) == (2, True)


@pytest.mark.parametrize("status", ["error", "oom", "timeout", "killed"])
def test_nothing_is_measured_of_a_failed_trial(measured: Results, status: str) -> None:
    for number in (0, 1):
        write(measured, number, status, reason="bad luck")
    assert Watched(measured).look().is_over


def test_following_goes_on_until_all_is_measured(
    measured: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in (0, 1):
        write(measured, number)
    looks = iter([0, 1, 1])

    def work(_: float) -> None:
        write(measured, next(looks), measures={"quality": {}, "throughput": {}})

    monkeypatch.setattr(time, "sleep", work)
    assert main(["status", "--follow", "--results", str(measured.root)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 ok; 2 not all measured", "2 ok; 1 not all measured", "2 ok",
    ]  # fmt: skip
    assert next(looks, None) is None


def test_following_goes_on_while_a_sweep_is_at_work(
    results: Results, leases: Leases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that makes records anew has nothing in hand at the first look and at the fourth."""
    for number in range(6):
        write(results, number)
    take, rest = (lambda: leases.take("throughput:x")), (lambda: None)
    steps: Iterator[Any] = iter([take, rest, leases.release_all, take, leases.release_all, rest])
    monkeypatch.setattr(time, "sleep", lambda _: next(steps)())
    assert main(["status", "--follow", "--results", str(results.root)]) == 0
    assert next(steps, None) is None


def test_following_on_a_terminal_draws_over_itself(
    results: Results, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(time, "sleep", lambda _: [write(results, n) for n in range(6)])
    assert main(["status", "--follow", "--results", str(results.root)]) == 0
    out = capsys.readouterr().out
    assert "6 waiting" in out
    assert "6 ok" in out
    assert "\x1b[" in out


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_following_is_ended_by_a_signal(results: Results, number: int, code: int) -> None:
    follower = subprocess.Popen(
        [sys.executable, "-m", "ablations", "status", "--follow", "--results", str(results.root)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout
    assert follower.stdout.readline() == "6 waiting\n"
    follower.send_signal(number)
    _, err = follower.communicate(timeout=60)
    assert follower.returncode == code
    assert err == "Stopped. The same command goes on from here.\n"


def test_the_document_is_strict_json(results: Results, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json", "--results", str(results.root)]) == 0
    found = json.loads(capsys.readouterr().out)
    told = {"unmeasured", "reasons", "set_aside", "seconds_left", "trials"}
    assert set(found) == {*command.STATES, *told}
