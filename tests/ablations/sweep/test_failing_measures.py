"""A measure that fails costs itself alone: what the trial knows already stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from torch import nn

from ablations.measure.quality import Quality
from ablations.plan.missing import missing
from ablations.plan.wanted import make_plan
from ablations.store.record import Reading, Record
from ablations.store.results import Results
from ablations.sweep.launch import Event, Job, Outcome
from ablations.sweep.orders import TrialOrder
from ablations.sweep.runner import run
from ablations.sweep.worker import run_trial
from ablations.train.weights import save_weights, stamp_for


class Broken:
    """A launcher whose every job fails."""

    capacity = 1

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def events(self) -> Iterator[Event]:
        while self.jobs:
            yield Outcome(self.jobs.pop().id, "killed", reason="SIGKILL")


def test_a_measure_that_is_added_later_and_fails_leaves_the_record_and_a_note(
    ask: Callable[..., str], tmp_path: Path
) -> None:
    plan = make_plan([ask(measures=["quality"])], "smoke", {}, [0])
    results = Results(tmp_path / "out")
    for want in plan.wanted.values():
        loss = Reading("loss", "nats/token", 1.0, split="valid", at={"step": 1})
        env = {"code": want.code}
        record = Record(want.trial, "ok", want.config, env=env, readings=[loss])
        results.write(record)
        save_weights(nn.Linear(1, 1), results.weights(want.trial), stamp_for(record))
    launcher: Any = Broken()
    assert run(plan, results, launcher, "cpu")["killed"] == len(plan.wanted)
    for trial in plan.wanted:
        held = results.read(trial)
        assert held
        assert (held.status, held.readings, held.measures) == ("ok", [loss], {})
        assert (held.reason, held.failures) == (None, {"measuring": "killed (SIGKILL)"})
        assert [attempt["status"] for attempt in held.env["earlier"]] == ["killed"] * 3
    assert len(missing(plan, results, None).measure) == len(plan.wanted), "to be tried again"


def test_a_measure_that_fails_after_training_leaves_the_training(
    ask: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise RuntimeError("no room")

    monkeypatch.setattr(Quality, "take", fail)
    settings = {"train.steps": 2, "task.words": 200, "task.valid_words": 20}
    plan = make_plan([ask()], "smoke", settings, [0])
    want = next(iter(plan.wanted.values()))
    order = TrialOrder(
        device="cpu", imports=[], env={}, trial=want.trial, config=want.config, trained=True,
        counts=want.counts, code=want.code, measures={"quality": want.measure_code("quality")},
        record=None, weights=str(tmp_path / "weights.safetensors"),
        unfinished=str(tmp_path / "weights.unfinished"),
    )  # fmt: skip
    record = Record.from_dict(run_trial(order.payload(), lambda *_: None))
    assert record.measures == {}
    assert record.failures == {"quality": "RuntimeError: no room"}
    assert record.status in ("ok", "stuck")
    assert [reading for reading in record.readings if reading.metric == "loss"]
