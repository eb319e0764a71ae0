"""Plans of small questions, and records as their trials would leave them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ablations.expand import Trial
from ablations.plan import Plan, make_plan
from ablations.store.record import Record

POST = {"with": {}, "post": {"model.residual": "post"}}
BOTH = ["quality", "throughput"]


def planned(*files: str, seeds: list[int] | None = None, **overrides: Any) -> Plan:
    return make_plan(list(files), "smoke", overrides, seeds or [0])


def without_timings(plan: Plan) -> Plan:
    trials = {trial.id: replace(trial, timings={}) for trial in plan.trials.values()}
    return replace(plan, trials=trials)


def record_of(want: Trial, **changes: Any) -> Record:
    known: dict[str, Any] = {
        "status": "ok",
        "env": {"code": want.code},
        "data": want.data,
        "sources": {name: want.source_code(name) for name in want.sources},
        **changes,
    }
    return Record(want.id, config=want.config, **known)
