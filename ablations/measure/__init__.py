"""What is read off a trial: one measure a file, found by being here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ablations.store.record import Reading
from ablations.tasks.task import Example, Task
from model.family import Family

MEASURE = Family("measure")

Place = Mapping[str, float | str]
"""Where something is measured: {"length": 64, "batch": 1, "pass": "training"}."""


@dataclass(frozen=True)
class Quantity:
    """What a measure reads: its unit, which way is better, what a table calls it."""

    unit: str
    better: Literal["lower", "higher"]
    label: str
    repeats: Literal["seeds", "processes", "nothing"] = "seeds"
    """What a second look at it takes; a count is what it is, and needs none."""
    matters: float | None = None
    """The size of a difference that matters, registered before any trial is run."""


@dataclass
class Taken:
    """What a measure has read off a model."""

    readings: list[Reading]
    examples: list[Example] = field(default_factory=list)
    """Decoded answers, where there are any."""
    items: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → what each example of test had in it."""


class Measure:
    """Works on a trained model, so it can be added later without training again."""

    quantities: ClassVar[dict[str, Quantity]] = {}
    """What it reads besides the task's own scores and the loss."""

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        raise NotImplementedError


class Probe:
    """Reads off a model what no training is needed for; it builds what it looks at."""

    quantities: ClassVar[dict[str, Quantity]]

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        raise NotImplementedError


class Timing:
    """Times an untrained model beside a reference, in a session that has the machine to itself."""

    quantities: ClassVar[dict[str, Quantity]]
    """Of which the first is what is timed."""
    places: ClassVar[dict[str, list[Any]]]
    """Coordinate → where it is timed, unless a question says otherwise."""
    words: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Of each coordinate that is a word, the words there are."""
    along: ClassVar[str] = "length"
    """The coordinate that is walked upwards: where a call takes too long, longer ones are left."""
    beside: ClassVar[dict[str, Any]] = {}
    """Where the reference stands, if not at the same place."""

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        """The call that is timed, with all that it needs already made."""
        raise NotImplementedError


@cache
def discover() -> Family:
    """The family, with every measure of this folder in it."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return MEASURE


def is_timing(name: str) -> bool:
    return issubclass(discover().part(name), Timing)


def is_probe(name: str) -> bool:
    return issubclass(discover().part(name), Probe)


def quantities_of(names: list[str]) -> dict[str, Quantity]:
    """All that these measures read, besides the task's own scores."""
    return {
        metric: each for name in names for metric, each in discover().part(name).quantities.items()
    }
