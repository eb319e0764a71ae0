"""From a plan to records: nothing twice, nothing lost, and a failure is a result."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small import held, question
from small_plans import record_of, without_timings

from ablations.commands import main
from ablations.evaluations.quality import Quality
from ablations.jobs import RunConfig
from ablations.launch import Event, Job, Outcome, Progress
from ablations.launch.local import LocalLauncher
from ablations.leases import Leases
from ablations.plan import Plan, make_plan
from ablations.plan_document import merge_into
from ablations.runner import EARLIER, run
from ablations.store.record import Measurement, Record
from ablations.store.results import Results
from ablations.train.checkpoint import stamp_of

Ask = Callable[..., str]
TABLE = "whole [task.words=200, train.steps=5]"


class Sweep:
    """A question, a results folder, and the command that runs the one into the other."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "whole.yaml"
        self.results = Results(folder / "out")

    def run(self, *words: str) -> tuple[int, str]:
        told = io.StringIO()
        sizes = ("train.steps=5", "task.words=200")
        options = ("--profile", "smoke", "--jobs", "1", "--seeds", "0,1")
        where = ("--results", str(self.results.root))
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = main(["run", str(self.file), *options, *where, *sizes, *words])
        return code, told.getvalue()

    def cells(self) -> dict[tuple[str, int], str]:
        cells = self.results.read_plan()["experiments"][TABLE]["trials"]
        return {(cell["variant"], cell["seed"]): cell["id"] for cell in cells}

    def files(self) -> dict[str, tuple[int, bytes]]:
        return {
            str(path.relative_to(self.results.root)): (path.stat().st_mtime_ns, path.read_bytes())
            for path in self.results.root.rglob("*")
            if path.is_file()
        }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, server: None) -> Sweep:
    """One real sweep: two variants, two seeds, one timing session."""
    sweep = Sweep(tmp_path_factory.mktemp("sweep"))
    sweep.file.write_text(json.dumps(question(sources=["quality", "throughput"])))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ablations.commands.run.write_page", lambda results: None)
        code, told = sweep.run()
    assert code == 0, told
    return sweep


def losses(record: Record) -> list[Any]:
    return [
        (r.split, r.coordinates, r.value)
        for r in record.measurements
        if r.metric in ("loss", "per", "wer")
    ]


# A whole sweep.


def test_a_sweep_leaves_a_plan_and_a_record_and_a_checkpoint_for_each_trial(
    finished: Sweep,
) -> None:
    """A record says what was run, where and with what; its first seed is timed, too."""
    cells = finished.cells()
    assert set(finished.files()) == {
        "plan.json",
        *(f"trials/{trial}.json" for trial in cells.values()),
        *(f"checkpoints/{trial}.safetensors" for trial in cells.values()),
    }
    assert len(set(cells.values())) == 4
    for (_, seed), trial in cells.items():
        record = held(finished.results, trial)
        assert record.status in ("ok", "stuck")
        assert (record.config["seed"], record.config["train"]["steps"]) == (seed, 5)
        assert record.parameters
        assert record.flops_per_token
        assert record.examples
        assert record.data["size"] == {"train": 200, "valid": 40, "test": 40}
        assert set(record.env) >= {"commit", "dirty", "code", "torch", "device", "threads"}
        assert record.env["threads"] == 1
        assert record.env["seconds"] > 0
        times = [r for r in record.measurements if r.metric == "step_time"]
        assert list(record.sources) == ["quality", "throughput"][: 2 - seed]
        assert [r.baseline for r in times] == [cells["with", 0]] * 3 * (1 - seed)
        assert len({r.session for r in times}) == 3 * (1 - seed)  # processes
        for each in times:
            assert len(each.samples or []) == len(each.baseline_samples or []) > 0


# Again.


def test_a_second_run_trains_nothing_and_changes_no_file(finished: Sweep) -> None:
    before = finished.files()
    code, told = finished.run()
    assert code == 0
    assert "nothing was left to run" in told
    assert finished.files() == before


# What the launcher says is what the record says.


def break_jobs(here: Any, ends: Callable[[Job], Outcome | None]) -> Callable[[], None]:
    """Let jobs end as `ends` says, or run where it says nothing; gives the way back."""
    healthy = here.work
    here.work = lambda job, report: ends(job) or healthy(job, report)
    return lambda: setattr(here, "work", healthy)


@pytest.fixture
def plan(ask: Ask) -> Plan:
    plan = make_plan([ask(sources=["quality", "throughput"])], "smoke", {}, [0])
    plan.profile.timing.update(blocks=2, warmup=1, sample_seconds=0.0)
    return plan


def test_a_failed_trial_is_tried_again_when_asked(plan: Plan, results: Results, here: Any) -> None:
    rival = list(plan.trials)[1]
    mend = break_jobs(here, lambda job: Outcome(job.id, "oom") if job.id == rival else None)
    run(RunConfig(plan, results, "cpu", poll=0), here)
    mend()
    here.jobs.clear()
    assert run(RunConfig(plan, results, "cpu"), here) == {EARLIER: 1}
    assert here.jobs == []
    assert EARLIER not in run(RunConfig(plan, results, "cpu", rerun="failed"), here)
    assert rival in [job.id for job in here.jobs]
    record = held(results, rival)
    assert record.status in ("ok", "stuck")
    assert list(record.sources) == ["quality", "throughput"]
    assert (record.attempts, len(record.env["earlier"])) == (4, 3), "also those of the first run"


def test_a_process_that_could_not_be_started_is_tried_again(
    plan: Plan, results: Results, here: Any
) -> None:
    rival = list(plan.trials)[1]
    refused = [Outcome(rival, "error", reason="too many processes", began=False)]
    break_jobs(here, lambda job: refused.pop() if job.id == rival and refused else None)
    run(RunConfig(plan, results, "cpu", poll=0), here)
    assert held(results, rival).attempts == 2
    assert not held(results, rival).reason or held(results, rival).status == "stuck"


def test_a_measure_that_fails_costs_itself_alone(
    plan: Plan, results: Results, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no room")

    monkeypatch.setattr(Quality, "measure", fail)
    run(RunConfig(plan, results, "cpu"), here)
    record = held(results, next(iter(plan.trials)))
    assert list(record.sources) == ["throughput"]
    assert record.failures == {"quality": "RuntimeError: no room"}
    assert record.status in ("ok", "stuck")
    assert losses(record)


def test_a_stale_record_is_named_and_made_anew_when_asked(
    plan: Plan, results: Results, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    run(RunConfig(plan, results, "cpu"), here)
    trial = next(iter(plan.trials))
    stale = held(results, trial)
    stale.env["code"] = {"model/norms.py": "other"}
    results.write(stale)
    here.jobs.clear()
    run(RunConfig(plan, results, "cpu"), here)
    assert here.jobs == []
    assert "1 records were made by other code" in capsys.readouterr().err
    run(RunConfig(plan, results, "cpu", rerun="stale"), here)
    assert here.jobs[0].id == trial
    fresh = held(results, trial)
    assert fresh.env["code"] == plan.trials[trial].code


def test_a_deleted_record_is_trained_again_with_equal_losses_and_no_other_is(
    plan: Plan, results: Results, here: Any
) -> None:
    plan = without_timings(plan)
    run(RunConfig(plan, results, "cpu"), here)
    trial = next(iter(plan.trials))
    old = held(results, trial)
    results.path(trial).unlink()
    here.jobs.clear()
    run(RunConfig(plan, results, "cpu"), here)
    assert [job.id for job in here.jobs] == [trial]
    assert losses(held(results, trial)) == losses(old)


def test_a_session_runs_last_and_one_that_failed_is_taken_again_by_the_next_run(
    plan: Plan, results: Results, here: Any
) -> None:
    mend = break_jobs(here, lambda job: Outcome(job.id, "killed") if ":" in job.id else None)
    assert run(RunConfig(plan, results, "cpu", poll=0), here)["killed"] == 1
    calls = [job.call.rpartition(":")[2] for job in here.jobs]
    assert calls == ["run_trials", "run_trials", *["run_benchmark"] * 3]
    assert [[*held(results, trial).sources] for trial in plan.trials] == [["quality"]] * 2
    mend()
    here.jobs.clear()
    run(RunConfig(plan, results, "cpu"), here)
    assert [job.call for job in here.jobs] == ["ablations.worker:run_benchmark"]
    assert all("throughput" in held(results, trial).sources for trial in plan.trials)


def test_a_run_goes_seed_by_seed_and_tells_of_each_pass_but_the_last(
    ask: Ask, results: Results, here: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """What needs no training, pass 1, the benchmarks, and then a seed more at a time."""
    counted = ask("counted", sources=["share"], metric="time_share")
    asked = ask(sources=["quality", "throughput"])
    plan = make_plan([asked, counted], "smoke", {}, [7, 5, 6])

    def work(job: Job, _: Any) -> Outcome:
        if ":" in job.id:
            return Outcome(job.id, "error", reason="no clock")
        record = record_of(plan.trials[job.id], trained=plan.trials[job.id].trained)
        return Outcome(job.id, "done", {job.id: record.to_dict()})

    here.work = work
    ended: list[tuple[int, int, int]] = []
    config = RunConfig(plan, results, "cpu")
    run(config, here, lambda *both: ended.append((*both, len(here.jobs))))
    trained = {trial: want.config["seed"] for trial, want in plan.trials.items() if want.trained}
    told = [trained.get(job.id, "timed" if ":" in job.id else "counted") for job in here.jobs]
    assert [[word, len([*some])] for word, some in itertools.groupby(told)] == [
        ["counted", 2], [7, 2], ["timed", 1], [5, 2], [6, 2]
    ]  # fmt: skip
    assert ended == [(1, 3, 4), (2, 3, 7)]
    assert "pass 2 of 3" in capsys.readouterr().err


def test_where_a_place_is_added_the_times_of_the_others_stay(
    ask: Ask, results: Results, here: Any
) -> None:
    def plan(*lengths: int) -> Plan:
        points = {"throughput": {"length": [*lengths], "batch": [2]}}
        made = make_plan(
            [ask(sources=["quality", "throughput"], benchmarks=points)], "smoke", {}, [0]
        )
        made.profile.timing.update(blocks=2, warmup=1, sample_seconds=0.0)
        return made

    run(RunConfig(plan(4), results, "cpu"), here)
    trials = [*plan(4).trials]
    before = [taken(held(results, trial)) for trial in trials]
    here.jobs.clear()
    run(RunConfig(plan(4, 6), results, "cpu"), here)
    (job,) = here.jobs
    assert [at["length"] for at in job.payload["places"]] == [6]
    for trial, old in zip(trials, before, strict=True):
        new = taken(held(results, trial))
        assert set(old) == {4}
        assert set(new) == {4, 6}
        assert new[4] == old[4]


def taken(record: Record) -> dict[Any, list[Measurement]]:
    """Length → what was read there beside another."""
    found: dict[Any, list[Measurement]] = {}
    for measurement in record.measurements:
        if measurement.baseline is not None:
            found.setdefault(measurement.coordinates["length"], []).append(measurement)
    return found


# Beside other sweeps.


def test_a_plan_is_merged_where_no_other_sweep_can_merge_its_own(
    plan: Plan, results: Results, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 12."""

    def merge(*both: Any) -> None:
        assert not Leases(results.root / "leases").take(".lock")
        return merge_into(*both)

    monkeypatch.setattr("ablations.runner.merge_into", merge)
    run(RunConfig(plan, results, "cpu"), here)
    assert results.read_plan()["experiments"]


def test_a_session_waits_while_another_sweep_has_one_of_its_trials(
    plan: Plan, results: Results, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 12. Both write to the trial's record: one of the two would be lost."""
    run(RunConfig(without_timings(plan), results, "cpu"), here)
    here.jobs.clear()
    other = Leases(results.root / "leases")
    assert other.take(list(plan.trials)[1])
    waited = []

    def end_the_other(_: float) -> None:
        waited.append(len(here.jobs))
        other.release_all()

    monkeypatch.setattr("ablations.runner.time.sleep", end_the_other)
    run(RunConfig(plan, results, "cpu"), here)
    assert waited == [0]
    assert [job.call for job in here.jobs] == ["ablations.worker:run_benchmark"]


def test_a_failed_trial_that_another_sweep_has_tried_again_is_left_as_it_is(
    plan: Plan, results: Results, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 12."""
    rival = list(plan.trials)[1]
    break_jobs(here, lambda job: Outcome(job.id, "error") if job.id == rival else None)
    run(RunConfig(plan, results, "cpu"), here)
    here.jobs.clear()
    take = Leases.take

    def take_late(leases: Leases, *names: str) -> bool:
        assert leases.live() == []  # the trial is let go before its times are looked at
        results.write(held(results, rival))
        return take(leases, *names)

    monkeypatch.setattr(Leases, "take", take_late)
    run(RunConfig(plan, results, "cpu", rerun="failed"), here)
    assert here.jobs == []


def test_what_was_computed_under_a_lease_that_was_lost_is_dropped(
    plan: Plan, results: Results, here: Any
) -> None:
    """Fault 16."""
    rival = list(plan.trials)[1]
    plan = without_timings(plan)  # a session would wait for the other
    other = Leases(results.root / "leases")

    def lose(job: Job) -> None:
        if job.id == rival:
            (results.root / "leases" / rival).unlink()
            assert other.take(rival)

    break_jobs(here, lose)
    with other:
        counts = run(RunConfig(plan, results, "cpu", poll=0), here)
        assert counts["dropped"] == 1
        assert results.read(rival) is None
        assert [lease.name for lease in other.live()] == [rival]


# Told to stop.


class Interrupted(LocalLauncher):
    """Ctrl-C comes when the training has begun."""

    def events(self) -> Iterator[Event]:
        for event in super().events():
            yield event
            if isinstance(event, Progress) and event.fraction > 0:
                raise KeyboardInterrupt


def test_a_training_that_is_stopped_goes_on_from_its_checkpoint_with_equal_losses(
    server: None, ask: Ask, tmp_path: Path
) -> None:
    """Fault 10."""
    overrides = {"train.steps": 300, "train.evaluations": 1}
    plan = make_plan([ask(variants={"with": {}}, sources=[])], "smoke", overrides, [0])
    (trial,) = plan.trials
    stopped, alone = Results(tmp_path / "stopped"), Results(tmp_path / "alone")
    with Interrupted(1) as launcher, pytest.raises(KeyboardInterrupt):
        run(RunConfig(plan, stopped, "cpu"), launcher)
    assert stopped.read(trial) is None
    assert stopped.unfinished(trial).exists()
    earlier = float(stamp_of(stopped.unfinished(trial))["seconds"])
    assert Leases(stopped.root / "leases").live() == []
    for results in (stopped, alone):
        with LocalLauncher(1) as launcher:
            run(RunConfig(plan, results, "cpu"), launcher)
    assert losses(held(stopped, trial)) == losses(held(alone, trial))
    assert len(losses(held(alone, trial))) > 100
    assert held(stopped, trial).attempts == 1
    assert held(stopped, trial).env["seconds"] > earlier > 0
    assert not stopped.unfinished(trial).exists()


def test_a_trial_that_is_stopped_while_it_is_measured_keeps_its_training(
    plan: Plan, results: Results, here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fault 10."""
    trial = next(iter(plan.trials))
    with monkeypatch.context() as patch:
        patch.setattr(Quality, "measure", lambda *_: signal.raise_signal(signal.SIGTERM))
        run(RunConfig(plan, results, "cpu"), here)
    assert list(held(results, trial).sources) == ["throughput"]
    assert not held(results, trial).failures
    here.jobs.clear()
    run(RunConfig(plan, results, "cpu"), here)
    assert list(held(results, trial).sources) == ["throughput", "quality"]
    asked = [each for job in here.jobs for each in job.payload["trials"]]
    assert all(each["record"] for each in asked), "nothing was trained again"
