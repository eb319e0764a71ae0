"""What a plan will cost: time from finished records or a measured rate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from ablations import estimate
from ablations.estimate import (
    BEFORE,
    PEAKS,
    operations,
    projected_hours,
    rate_of,
    seconds_each,
    side_by_side,
)
from ablations.expand import Trial
from ablations.plan import Plan, make_plan
from ablations.store.record import Record
from ablations.store.results import Results
from ablations.train.device import device_name

Ask = Callable[..., str]
CPU = torch.device("cpu")


@pytest.fixture
def plan(ask: Ask) -> Plan:
    """Two small variants and one that is twice as long."""
    variants = {"with": {}, "without": {"model.position": "none"}, "long": {"train.steps": 8}}
    return make_plan([ask(variants=variants)], "smoke", {}, [0])


def never() -> float:
    raise AssertionError("nothing has to be measured")


def made_here(want: Trial, status: str = "ok", **env: Any) -> Record:
    env = {"code": want.code, "device": device_name(CPU), **env}
    reason = None if status == "ok" else "full"
    return Record(want.id, status, want.config, reason, env=env, data=want.data)


def test_trials_side_by_side_take_no_less_than_the_longest() -> None:
    cases = [([], 2, 0), ([48], 1, 48), ([48], 4, 48), ([3, 2, 1], 2, 3), ([2] * 8, 2, 8)]
    assert [side_by_side(each, at_once) for each, at_once, _ in cases] == [s for *_, s in cases]


def test_without_records_time_is_work_times_the_rate_of_the_machine(
    plan: Plan, results: Results
) -> None:
    wants = list(plan.trials.values())
    each = seconds_each(wants, plan, results, CPU, lambda trial: 1e-6)
    assert each == [pytest.approx(BEFORE + 1e-6 * operations(want)) for want in wants]
    assert seconds_each(wants, plan, results, CPU, lambda trial: None) == [None] * 3


def test_a_finished_trial_of_a_task_says_how_long_the_others_take(
    plan: Plan, results: Results
) -> None:
    first, *others = plan.trials.values()
    results.write(made_here(first, seconds=30.0))
    assert seconds_each(others, plan, results, CPU, never) == pytest.approx([30, 60], rel=0.1)


def test_a_time_that_says_nothing_of_a_training_here_is_passed_over(
    plan: Plan, results: Results
) -> None:
    first, *others = plan.trials.values()
    for status, env in [
        ("ok", {"seconds": 30.0, "device": "cpu (another)"}),
        ("ok", {}),
        ("error", {"seconds": 0.1}),
        ("diverged", {"seconds": 0.1}),
        ("ok", {"seconds": 30.0, "devices": 2}),
        ("ok", {"seconds": 30.0, "packed": 3}),
    ]:
        results.write(made_here(first, status, **env))
        assert seconds_each(others, plan, results, CPU, lambda trial: None) == [None, None], (
            status,
            env,
        )
    results.path(first.id).write_text("{")
    assert seconds_each(others, plan, results, CPU, lambda trial: None) == [None, None]


def test_what_no_memory_holds_has_no_time_and_what_is_not_trained_takes_a_moment(
    ask: Ask, results: Results
) -> None:
    huge = make_plan([ask(variants={"with": {"model.d_model": 1_000_000}})], "smoke", {}, [0])
    probed = make_plan([ask(sources=["share"], metric="time_share")], "smoke", {}, None)
    for plan, seconds in ((huge, None), (probed, BEFORE)):
        each = seconds_each(list(plan.trials.values()), plan, results, CPU, lambda trial: 1e-9)
        assert set(each) == {seconds}


def test_the_rate_of_this_processor_is_measured_once(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = next(iter(plan.trials.values()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    estimate._rate_here.cache_clear()
    first = rate_of(CPU, trial) or 0
    assert 0 < first < 1e-6
    estimate._rate_here.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr("ablations.estimate._measured_rate", never)
        assert rate_of(CPU, trial) == first, "it is read from the file"
    for harmed in ("{", "[]", "7"):
        estimate._rate_here.cache_clear()
        (tmp_path / "ablations/speed.json").write_text(harmed)
        assert (rate_of(CPU, trial) or 0) > 0
    estimate._rate_here.cache_clear()


def test_device_hours_are_three_forward_passes_at_a_share_of_the_published_peak(
    plan: Plan,
) -> None:
    trials = list(plan.trials.values())
    forward = sum(operations(trial) for trial in trials)
    for device, (low, high) in projected_hours(trials).items():
        assert high == pytest.approx(3 * forward / (0.1 * PEAKS[device]) / 3600)
        assert low == pytest.approx(high / 4)
