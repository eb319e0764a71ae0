"""A sweep of toys: its plan, and the program that drives it."""

from __future__ import annotations

import json
import sys
from typing import Any

from toy_trials import CALL

from ablations.launch.local import LocalLauncher
from ablations.leases import Leases
from ablations.plan.wanted import Plan, Want
from ablations.runner import run
from ablations.signals import exit_code, stoppable
from ablations.spec import Profile
from ablations.store.results import Results
from ablations.store.schema import FAILED
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


def drive(settings: dict[str, Any]) -> int:
    """What the command `run` does, for a plan of toys."""
    results = Results(settings["folder"])
    leases = Leases(results.root / "leases")
    try:
        with LocalLauncher(settings.get("jobs", 1), ["toy_trials"], grace=30.0) as launcher:
            plan = toy_plan(settings["trials"])
            counts = run(plan, results, launcher, "cpu", call=CALL, leases=leases, poll=0.02)
    except KeyboardInterrupt as stop:
        print("Stopped. The same command goes on from here.", file=sys.stderr)
        return exit_code(stop)
    return 1 if any(counts[status] for status in FAILED) else 0


if __name__ == "__main__":
    with stoppable():
        sys.exit(drive(json.loads(sys.argv[1])))
