"""What yields measurements: evaluations, probes and benchmarks, found in their packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ablations.store.record import Reading
from ablations.tasks.task import Example, Task
from model.config import Family

MEASUREMENT = Family("measurement")
PACKAGES = ("ablations.evaluations", "ablations.probes", "ablations.benchmarks")

Place = Mapping[str, float | str]
"""The coordinates of a measurement: {"length": 64, "batch": 1, "pass": "training"}."""


@dataclass(frozen=True)
class Quantity:
    """What is measured: its unit, which way is better, its label in a table."""

    unit: str
    better: Literal["lower", "higher"]
    label: str
    repeats: Literal["seeds", "processes", "nothing"] = "seeds"
    """What varies between repetitions; a count needs none."""
    matters: float | None = None
    """The size of a difference that matters, registered before any trial is run."""


@dataclass
class Measured:
    """What an evaluation or a probe has measured."""

    readings: list[Reading]
    examples: list[Example] = field(default_factory=list)
    """Decoded answers, where there are any."""
    items: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → its value for each example of test."""


class Evaluation:
    """Measures a trained model, so it can be added later without training again."""

    quantities: ClassVar[dict[str, Quantity]] = {}
    """What it measures besides the task's own scores and the loss."""

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        raise NotImplementedError

    def reading(self, name: str, value: float | None, at: Place, **fields: Any) -> Reading:
        """A measurement on test, in the unit of the quantity."""
        fields = {"split": "test", **fields}
        return Reading(name, self.quantities[name].unit, value, at=dict(at), **fields)

    def nothing(self, at: Place, reason: str) -> Measured:
        """Null for every quantity, and the reason."""
        return Measured([self.reading(name, None, at, reason=reason) for name in self.quantities])


class Probe:
    """Measures what needs no training; it builds what it looks at."""

    quantities: ClassVar[dict[str, Quantity]]

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        raise NotImplementedError

    def reading(
        self, name: str, value: float | None, at: Place | None = None, **fields: Any
    ) -> Reading:
        return Reading(name, self.quantities[name].unit, value, at=dict(at or {}), **fields)


class Benchmark:
    """Times an untrained model beside the baseline, in a session that has the machine to itself."""

    quantities: ClassVar[dict[str, Quantity]]
    """The first is what is timed."""
    places: ClassVar[dict[str, list[Any]]]
    """Coordinate → where it is timed, unless an experiment says otherwise."""
    words: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The values of each coordinate that is a word."""
    along: ClassVar[str] = "length"
    """The coordinate that is walked upwards: past a call that takes too long, longer ones are
    skipped."""
    beside: ClassVar[dict[str, Any]] = {}
    """The baseline's coordinates where they differ from the candidate's."""

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        """The call that is timed, with everything it needs already made."""
        raise NotImplementedError


@cache
def discover() -> Family:
    """The registry, after importing every module of the three packages."""
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return MEASUREMENT


def is_benchmark(name: str) -> bool:
    return issubclass(discover().part(name), Benchmark)


def needs_weights(names: Iterable[str]) -> bool:
    """Whether one of these evaluations and probes measures a trained model."""
    return any(not issubclass(discover().part(name), Probe) for name in names)


def quantities_of(names: Iterable[str]) -> dict[str, Quantity]:
    """Everything that these measure, besides the task's own scores."""
    return {
        metric: each for name in names for metric, each in discover().part(name).quantities.items()
    }
