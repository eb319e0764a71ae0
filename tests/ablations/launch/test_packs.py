"""Seeds that are trained together: the same trials with the same records, in fewer jobs."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from in_process import InProcess
from small import SETTINGS, held

from ablations.expand import Trial
from ablations.jobs import Passes, RunConfig, TrainingJob, can_pack
from ablations.launch import Job, Outcome
from ablations.plan import Plan, make_plan
from ablations.runner import run
from ablations.signals import Stopped
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.worker import run_trials
from model.positions import POSITION, Position

Ask = Callable[..., str]
SEEDS = [0, 1, 2]


def sizes(jobs: list[Job]) -> list[int]:
    return [len(job.payload["trials"]) for job in jobs]


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return make_plan([ask()], "smoke", {}, SEEDS)


def assert_alike(ours: Record, theirs: Record) -> None:
    """To rounding, and but for how long it took."""
    assert (ours.id, ours.config, ours.data) == (theirs.id, theirs.config, theirs.data)
    assert (ours.status, ours.sources) == (theirs.status, theirs.sources)
    assert (ours.parameters, ours.attempts) == (theirs.parameters, theirs.attempts)
    places = [(r.source, r.metric, r.split, r.coordinates) for r in ours.measurements]
    assert places == [(r.source, r.metric, r.split, r.coordinates) for r in theirs.measurements]
    for one, other in zip(ours.measurements, theirs.measurements, strict=True):
        if one.metric in ("loss", "gradient_norm", "lr"):
            assert one.value == pytest.approx(other.value, rel=1e-3), one.metric


def test_a_packed_sweep_leaves_the_records_of_one_that_is_not(
    plan: Plan, tmp_path: Path, here: InProcess
) -> None:
    singly, together = Results(tmp_path / "singly"), Results(tmp_path / "together")
    expected = run(RunConfig(plan, singly, "cpu"), here)
    here.jobs.clear()
    begun = time.perf_counter()
    assert run(RunConfig(plan, together, "cpu", pack=3), here) == expected
    elapsed = time.perf_counter() - begun
    assert sizes(here.jobs) == [3, 3]
    for trial, want in plan.trials.items():
        record = held(together, trial)
        assert_alike(record, held(singly, trial))
        assert record.env["packed"] == 3
        assert record.env["code"] == want.code
        assert "packed" not in held(singly, trial).env
    spent = [held(together, trial).env["seconds"] for trial in plan.trials]
    assert 0 < min(spent) < sum(spent) <= elapsed, "each has its own share of the time"
    files = [
        {str(path.relative_to(each.root)) for path in each.root.rglob("*") if path.is_file()}
        for each in (singly, together)
    ]
    assert files[0] == files[1]
    here.jobs.clear()
    run(RunConfig(plan, together, "cpu", pack=3), here)
    assert here.jobs == [], "nothing is left to do"


# Which trials go together.


def passes(plan: Plan, results: Results, pack: int) -> dict[int, list[TrainingJob]]:
    setting = RunConfig(plan, results, "cpu", [], limit=10.0, accelerators=1.0)
    return Passes(plan, pack).of(plan.trials.values(), set(plan.trials), setting)


def test_the_seeds_of_a_variant_are_cut_into_few_passes_of_like_size(
    ask: Ask, results: Results
) -> None:
    plan = make_plan([ask()], "smoke", {}, list(range(10)))
    for pack, each in {1: [1] * 10, 2: [2] * 5, 99: [10], 4: [4, 3, 3]}.items():
        found = passes(plan, results, pack)
        assert [*found] == [*range(1, len(each) + 1)]
        for size, some in zip(each, found.values(), strict=True):
            assert [len(work.leases) for work in some] == [size, size]
        everything = [work for some in found.values() for work in some]
        assert {trial for work in everything for trial in work.leases} == set(plan.trials)
        for work in everything:
            assert len({str(plan.trials[trial].sections) for trial in work.leases}) == 1


def test_a_trial_that_has_a_checkpoint_goes_on_from_it_alone(plan: Plan, results: Results) -> None:
    one, begun, two, *_ = plan.trials
    results.checkpoints.mkdir(parents=True)
    results.unfinished(begun).touch()
    ((first, alone, rest),) = passes(plan, results, 3).values()
    assert [first.leases, alone.leases] == [(one, two), (begun,)]
    assert len(rest.leases) == 3


PACKABLE = [
    ({}, True),
    ({"train.precision": "bfloat16"}, True),
    ({"train.optimizer": "sgd"}, True),
    ({"model": {"name": "recurrent", "d_model": 8}}, True),
    ({"model.dropout": 0.1}, False),
    ({"model": {"name": "recurrent", "d_model": 8, "dropout": 0.2}}, False),
    ({"train.compile": True}, False),
]


def test_what_cannot_be_packed_goes_alone_whatever_was_asked(
    ask: Ask, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(**overrides: object) -> Trial:
        plan = make_plan([ask(variants={"with": {}}, settings={})], "smoke", overrides, [0])
        return next(iter(plan.trials.values()))

    assert [(overrides, can_pack(first(**overrides))) for overrides, _ in PACKABLE] == PACKABLE
    untrained = ask(sources=["share"], metric="time_share", settings=SETTINGS)
    assert not any(map(can_pack, make_plan([untrained], "smoke", {}, None).trials.values()))

    class Mine(Position):
        """A user's own."""

    Mine.__module__ = "my_parts"
    monkeypatch.setitem(POSITION.components, "mine", Mine)
    assert not can_pack(first(**{"model.position": "mine"}))
    plan = make_plan([ask()], "smoke", {"model.dropout": 0.1}, SEEDS)
    (some,) = passes(plan, results, 3).values()
    assert [len(work.leases) for work in some] == [1] * 6


# Packs that come to nothing.


def test_the_trials_of_a_pack_that_fails_go_on_alone(
    plan: Plan, results: Results, here: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    healthy, broken = here.work, []

    def work(job: Job, report: Callable[[float, str], None]) -> Outcome:
        if len(job.payload["trials"]) == 1 or broken:
            return healthy(job, report)
        broken.append(job.id)
        return Outcome(job.id, "oom", reason="too much")

    here.work = work  # type: ignore[method-assign]
    counts = run(RunConfig(plan, results, "cpu", poll=0, pack=3), here)
    assert sizes(here.jobs) == [3, 3, 1, 1, 1]
    assert counts.total() == 6
    assert not counts["oom"]
    first = next(iter(plan.trials))
    assert (held(results, first).attempts, "packed" in held(results, first).env) == (1, False)
    told = capsys.readouterr().err
    assert "seed 0 and 2 more: oom (too much); its trials run one by one" in told


def test_a_pack_that_is_stopped_while_it_trains_keeps_nothing(plan: Plan, results: Results) -> None:
    ((pack, _),) = passes(plan, results, 3).values()
    job = pack.job()
    assert job is not None

    def stop(fraction: float, _note: str) -> None:
        if fraction > 0:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(Stopped):
        run_trials(job.payload, stop)
    assert not results.checkpoints.exists() or not any(results.checkpoints.iterdir())
