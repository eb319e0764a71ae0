"""`python -m ablations` over a plan of toys: everything is real but the trials.

python toy_command.py '{"trial": {...}}' run --results DIR
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import sweep_jobs
import toy_trials

import ablations.commands.run
import ablations.launch.local
import ablations.runner
from ablations.commands import main
from ablations.jobs import RunConfig


class Cpu(str):
    type = "cpu"


def replace_what_needs_torch(trials: dict[str, Any]) -> None:
    toys = {name: {"task": {}, **does} for name, does in trials.items()}
    ablations.commands.run.plan_of = lambda options: sweep_jobs.toy_plan(toys)
    ablations.commands.run.write_page = lambda results: None
    run = ablations.runner.run

    def run_toys(config: RunConfig, *rest: Any) -> Counter[str]:
        return run(replace(config, call=toy_trials.CALL, poll=0.02), *rest)

    ablations.runner.run = run_toys
    launcher: Any = ablations.launch.local.LocalLauncher
    ablations.launch.local.LocalLauncher = (  # type: ignore[misc,assignment]
        lambda jobs, preload, **_: launcher(jobs, ["toy_trials"], grace=30.0)
    )
    device: Any = SimpleNamespace(
        pick_device=lambda word: Cpu("cpu"), check_devices=lambda *_: None, how_many=lambda _: 1
    )
    sys.modules["ablations.train.device"] = device


if __name__ == "__main__":
    replace_what_needs_torch(json.loads(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
