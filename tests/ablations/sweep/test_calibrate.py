"""How long trainings will take here: steps that are taken in workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import ablations.sweep.calibrate
from ablations.plan.wanted import make_plan
from ablations.store.frozen import freeze
from ablations.sweep.calibrate import clock, quickest, seconds_to_train
from ablations.sweep.launch.local import LocalLauncher
from ablations.tasks.cache import load_task

Ask = Callable[..., str]
CPU = torch.device("cpu")

pytestmark = pytest.mark.usefixtures("server")


def test_steps_are_taken_in_workers_and_one_too_large_costs_its_own_time_alone(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it tried twice: its time is unknown."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("the driver has built a model")

    variants = {"with": {}, "huge": {"model.d_model": 1_000_000}, "after": {"model.n_heads": 2}}
    plan = make_plan([ask(variants=variants)], "smoke", {}, [0])
    monkeypatch.setattr("model.build.build", refuse)  # workers are forked from a server
    with LocalLauncher(1) as launcher:
        first, huge, last = clock(launcher, "cpu", [])(list(plan.wanted.values()))
        assert clock(launcher, "cpu", [])([]) == []
    assert huge is None
    assert first is not None
    assert last is not None
    assert 0 < first < 100
    assert 0 < last < 100


def test_a_part_of_ones_own_is_loaded_by_the_worker(ask: Ask) -> None:
    want, _ = make_plan([ask()], "smoke", {}, [0]).wanted.values()
    with LocalLauncher(1) as launcher:
        assert clock(launcher, "cpu", ["no_such_module"])([want]) == [None]


@pytest.mark.parametrize(("evaluations", "looks"), [(1, 2), (3, 4), (50, 5)])
def test_training_takes_its_steps_and_its_looks_at_the_validation_split(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, evaluations: int, looks: int
) -> None:
    """One look before the first of four steps, and no more than one after each."""
    asked = {"train.evaluations": evaluations, "task.words": 3000, "task.valid_words": 1500}
    (want, *_) = make_plan([ask()], "smoke", asked, [0]).wanted.values()
    batches = len(load_task(freeze(want.config["task"])).evaluation_batches("valid"))
    assert batches > 1
    was_learning: list[bool] = []

    def clock(call: Callable[[], object], device: torch.device) -> float:
        call()
        was_learning.append(not torch.is_inference_mode_enabled())
        return 10.0 if was_learning[-1] else 1.0

    monkeypatch.setattr(ablations.sweep.calibrate, "quickest", clock)
    assert seconds_to_train(want.config, CPU) == 4 * 10.0 + looks * batches * 1.0
    assert was_learning == [True, False]


def test_the_quickest_of_three_calls_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 9.0, 10.0, 12.0, 20.0, 25.0])
    monkeypatch.setattr(ablations.sweep.calibrate.time, "perf_counter", lambda: next(times))
    assert quickest(lambda: None, CPU) == 2.0
