"""Plans of small questions, and records as their trials would leave them."""

from __future__ import annotations

from typing import Any

from ablations.plan.wanted import Plan, Want, make_plan
from ablations.store.record import Record

POST = {"with": {}, "post": {"model.residual": "post"}}
BOTH = ["quality", "throughput"]


def planned(*files: str, seeds: list[int] | None = None, **overrides: Any) -> Plan:
    return make_plan(list(files), "smoke", overrides, seeds or [0])


def record_of(want: Want, **changes: Any) -> Record:
    known: dict[str, Any] = {
        "status": "ok",
        "env": {"code": want.code},
        "data": want.data,
        "sources": {name: want.measure_code(name) for name in want.sources},
        **changes,
    }
    return Record(want.id, config=want.config, **known)
