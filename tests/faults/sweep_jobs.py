"""The plan of a sweep of toys."""

from __future__ import annotations

from typing import Any

from ablations.expand import Trial
from ablations.plan import Plan
from ablations.profile import Profile
from ablations.store.stamp import Stamp


class ToyTrial(Trial):
    """A trial that is told what to do, and no model to count."""

    counts = {"parameters": 1, "flops_per_token": 1.0}  # type: ignore[assignment] # noqa: RUF012
    code = {"toy": "1"}  # type: ignore[assignment] # noqa: RUF012
    data = {"sha256": "0", "files": []}  # type: ignore[assignment] # noqa: RUF012
    parameters = 1  # type: ignore[assignment]
    kept_bytes = 0.0  # type: ignore[assignment]
    files = ()  # type: ignore[assignment]

    def source_code(self, source: str) -> Stamp:
        return {}


def toy_plan(trials: dict[str, dict[str, Any]], *sources: str) -> Plan:
    """A plan that needs these, by name, each to do as its settings say."""
    source: Any = None
    plan = Plan(Profile("toy", 1, {}, source), {}, {})
    for name, does in trials.items():
        config = {"seed": 0, "train": {"steps": 1, "batch_tokens": 1}, **does}
        sections = {"kind": does.get("kind", "")}
        plan.add([ToyTrial(name, "toy", name, {}, 0, config, sections, {}, sources=sources)])
    return plan
