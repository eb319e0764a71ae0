"""How fast a machine trains, by a few steps that were taken on it once and kept.

The time of a trial is its counted work times what an operation took in a model of its kind that is
about as large: small products use a processor badly, and a recurrence waits for each of its steps.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ablations.plan.facts import cost_facts, task_facts
from ablations.plan.memory import cache_folder
from ablations.plan.wanted import Want
from ablations.store.files import read_file, write_atomic
from ablations.store.machine import HOST

BACKWARD = 2.0  # what the backward pass takes, in forward passes
KINDS = ("in parallel", "step by step")


@dataclass(frozen=True)
class SpeedPoint:
    """Of one model that was tried."""

    kind: str
    flops: float
    """Of the forward pass over a batch."""
    rate: float
    """Seconds for each of them, with the backward pass and its share of the update."""


@dataclass(frozen=True)
class Speed:
    """What was tried on a machine, each kind at several sizes."""

    points: Sequence[SpeedPoint]

    def seconds(self, want: Want) -> float:
        """How long a trial trains, with its looks at validation."""
        train = want.config["train"]
        per_token = cost_facts(want.frozen["model"], want.frozen["task"]).flops_per_token
        flops = per_token * train["batch_tokens"]
        rate = self.rate(kind_of(want.config["model"]), flops / train["parts"])
        looks = 1 + min(train["evaluations"], train["steps"])  # the first before any step
        looked = looks * per_token * task_facts(want.frozen["task"]).validated / (1 + BACKWARD)
        return rate * (train["steps"] * flops + looked)

    def rate(self, kind: str, flops: float) -> float:
        """Seconds for an operation of a batch of so many, on a straight line between logarithms;
        beyond what was tried, as at the end."""
        known = sorted((each.flops, each.rate) for each in self.points if each.kind == kind)
        (low, first), (high, last) = known[0], known[-1]
        share = (math.log(flops) - math.log(low)) / (math.log(high) - math.log(low))
        share = min(1.0, max(0.0, share))
        return math.exp((1 - share) * math.log(first) + share * math.log(last))


def kind_of(model: Mapping[str, Any]) -> str:
    """Whether one token waits for another."""
    return KINDS["cell" in model]


def speed_of(device: str, measure: Callable[[], Speed]) -> Speed:
    """What is known of this machine; it is measured, and kept, where nothing is."""
    path = cache_folder() / "speed.json"
    held = _read(path)
    key = f"{HOST}, {device}"
    try:
        return Speed([SpeedPoint(**each) for each in held[key]])
    except (KeyError, TypeError):
        speed = measure()
        _keep(path, {**held, key: [asdict(each) for each in speed.points]})
        return speed


def _read(path: Path) -> dict[str, Any]:
    """A file that cannot be used counts as none."""
    try:
        plain = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    return plain if isinstance(plain, dict) else {}


def _keep(path: Path, speeds: Mapping[str, Any]) -> None:
    try:
        write_atomic(path, json.dumps(speeds, indent=1, allow_nan=False) + "\n")
    except OSError:
        return  # then it is measured again next time
