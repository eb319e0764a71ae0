"""The plan of a sweep of toys."""

from __future__ import annotations

from typing import Any

from ablations.plan.wanted import Plan, Want
from ablations.spec import Profile
from ablations.store.stamp import Stamp


class ToyWant(Want):
    """A trial that is told what to do, and no model to count."""

    counts = {"parameters": 1, "flops_per_token": 1.0}  # type: ignore[assignment] # noqa: RUF012
    code = {"toy": "1"}  # type: ignore[assignment] # noqa: RUF012
    data = {"sha256": "0", "files": []}  # type: ignore[assignment] # noqa: RUF012
    parameters = 1  # type: ignore[assignment]
    kept_bytes = 0.0  # type: ignore[assignment]
    files = ()  # type: ignore[assignment]

    def measure_code(self, measure: str) -> Stamp:
        return {}


def toy_plan(trials: dict[str, dict[str, Any]]) -> Plan:
    """A plan that wants these, by name, each to do as its settings say."""
    wanted = {}
    for name, does in trials.items():
        config = {"seed": 0, "train": {"steps": 1, "batch_tokens": 1}, **does}
        wanted[name] = ToyWant(name, config, f"toy:{name}", {"kind": does.get("kind", "")})
    source: Any = None
    return Plan(Profile("toy", [0], {}, source), {}, {}, {}, wanted)
