"""What a folder lacks of a plan: asking changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from small_plans import BOTH, planned, record_of
from torch import nn

from ablations.expand import Trial
from ablations.missing import missing, untimed
from ablations.plan import Plan
from ablations.store.record import Measurement
from ablations.store.results import Results
from ablations.train.checkpoint import save_weights, stamp_for

Ask = Callable[..., str]


def lacks(plan: Plan, results: Results, rerun: str | None = None) -> dict[str, list[str]]:
    found = missing(plan, results, rerun)
    return {
        "train": [want.id for want in found.train],
        "measure": [want.id for want, _ in found.measure],
        "stale": [want.id for want in found.stale],
        "failed": [want.id for want in found.failed],
    }


def time_beside(baseline: str, at: Mapping[str, Any]) -> Measurement:
    times = {"samples": [1.0], "baseline_samples": [1.0], "baseline": baseline}
    return Measurement("step_time", "s", coordinates=dict(at), **times)  # type: ignore[arg-type]


@pytest.fixture
def plan(ask: Ask) -> Plan:
    return planned(ask())


def test_an_empty_folder_lacks_everything_and_one_of_whole_records_nothing(
    plan: Plan, results: Results
) -> None:
    assert lacks(plan, results)["train"] == list(plan.trials)
    assert [path for path in results.root.rglob("*") if path.is_file()] == []
    for want in plan.trials.values():
        results.write(record_of(want))
    for rerun in (None, "stale", "failed"):
        assert not any(lacks(plan, results, rerun).values())


def test_a_record_of_other_code_is_stale_and_made_anew_only_when_asked(
    plan: Plan, results: Results
) -> None:
    old, new = plan.trials.values()
    results.write(record_of(old, env={"code": {"model/norms.py": "other"}}))
    results.write(record_of(new))
    expected = {"train": [], "measure": [], "stale": [old.id], "failed": []}
    assert lacks(plan, results) == lacks(plan, results, "failed") == expected
    assert lacks(plan, results, "stale") == {**expected, "train": [old.id]}


def test_a_failed_trial_is_tried_again_only_when_asked_and_one_that_went_badly_never(
    plan: Plan, results: Results
) -> None:
    bad, good = plan.trials.values()
    expected = {"train": [], "measure": [], "stale": [], "failed": [bad.id]}
    for status in ("error", "oom", "timeout", "killed"):
        results.write(record_of(bad, status=status, reason="bad luck", sources={}))
        for trained in ("ok", "diverged", "stuck"):
            results.write(record_of(good, status=trained))
            assert lacks(plan, results) == lacks(plan, results, "stale") == expected
            assert lacks(plan, results, "failed") == {**expected, "train": [bad.id]}


def test_what_is_trained_but_not_timed_is_only_timed(ask: Ask, results: Results) -> None:
    plan = planned(ask(sources=BOTH), seeds=[0, 1])
    for want in plan.trials.values():
        results.write(record_of(want))
    found = missing(plan, results, None)
    timed = {want.id: want.timings for want in plan.trials.values() if want.timings}
    assert (found.train, found.measure, found.untimed) == ([], [], timed)
    assert len(timed) == 2


def test_a_time_is_lacking_until_it_was_taken_there_by_this_code_beside_that_baseline(
    ask: Ask,
) -> None:
    points = {"throughput": {"length": [4, 8, 16], "pass": ["forward", "training"]}}
    plan = planned(ask(sources=BOTH, benchmarks=points))
    control, rival = plan.trials.values()
    pair = ("throughput", control.id)
    first, *others = every = rival.timings[pair]
    assert len(every) == 6

    def lacking(
        against: str = control.id, made_by: Mapping[str, str] | None = None, **beside: str
    ) -> Any:
        """Where the first place was timed so."""
        record = record_of(rival)
        record.take("layer", {}, [time_beside(control.id, others[0])])  # which is another time
        taken = {**(made_by or rival.source_code("throughput"))}
        record.take("throughput", taken, [time_beside(against, first)])
        code = {**control.code, **beside}
        session = {"source": "throughput", "baseline": against, "code": code}
        record.env["sessions"] = {"a": session}
        return untimed(rival, record, plan.trials)[pair]

    assert untimed(rival, None, {}) == untimed(rival, record_of(rival, status="error"), {}) == {}
    assert untimed(rival, record_of(rival), plan.trials) == {pair: every}
    assert lacking() == others
    assert lacking("another") == every
    assert lacking(made_by={"ablations/benchmarks/session.py": "before"}) == every
    assert lacking(**{"model/residual.py": "x"}) == every, "the baseline's code has changed since"


def test_what_a_probe_lacks_needs_no_weights(ask: Ask, results: Results) -> None:
    plan = planned(ask(sources=["quality", "memory"]))
    want, other = plan.trials.values()
    results.write(record_of(want, sources={"quality": want.source_code("quality")}))
    results.write(record_of(other))
    found = lacks(plan, results)
    assert (found["measure"], found["train"]) == ([want.id], [])
    results.write(record_of(want, sources={}))
    found = lacks(plan, results)
    assert (found["measure"], found["train"]) == ([], [want.id]), "quality needs them"


OTHER = {"quality": {"ablations/evaluations/quality.py": "before"}}


def keep_weights(want: Trial, results: Results) -> None:
    head = results.read(want.id)
    assert head is not None
    save_weights(nn.Linear(1, 1), results.weights(want.id), stamp_for(head))


def test_a_measure_that_other_code_has_taken_is_taken_again_without_training(
    plan: Plan, results: Results
) -> None:
    """Fault 44 where nothing is run; and one that was never taken."""
    kept, lost = plan.trials.values()
    for sources in ({}, OTHER):
        for want in (kept, lost):
            results.write(record_of(want, sources=sources))
        keep_weights(kept, results)
        found = lacks(plan, results)
        assert (found["measure"], found["train"]) == ([kept.id], [] if sources else [lost.id])
    expected = {"train": [], "measure": [kept.id], "stale": [lost.id], "failed": []}
    assert lacks(plan, results) == expected
    assert lacks(plan, results, "stale") == {**expected, "train": [lost.id]}
    results.write(record_of(kept, env={"code": {"model/norms.py": "x"}}, sources=OTHER))
    keep_weights(kept, results)  # of other code's training, too
    stale = [want.id for want in (kept, lost)]
    assert lacks(plan, results) == {**expected, "measure": [], "stale": stale}
