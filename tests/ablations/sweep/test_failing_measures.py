"""A measure that fails costs itself alone: what the trial knows already stays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ablations.measure.quality import Quality
from ablations.plan.wanted import make_plan
from ablations.store.record import Record
from ablations.sweep.orders import TrialOrder
from ablations.sweep.worker import run_trial


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
