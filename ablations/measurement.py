"""What yields measurements: evaluations, probes and benchmarks, found in their packages."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.store.record import Measurement
from ablations.tasks.task import Example, Task
from ablations.tasks.task import Metric as Metric
from model.config import Registry

MEASUREMENT = Registry("measurement")
PACKAGES = ("ablations.evaluations", "ablations.probes", "ablations.benchmarks")

Place = Mapping[str, float | str]
"""The coordinates of a measurement: {"length": 64, "batch": 1, "pass": "training"}."""


@dataclass
class Measured:
    """What an evaluation or a probe has measured."""

    measurements: list[Measurement]
    examples: list[Example] = field(default_factory=list)
    """Decoded answers, where there are any."""
    per_example: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → its value for each example of test."""


class Evaluation:
    """Measures a trained model, so it can be added later without training again."""

    metrics: ClassVar[dict[str, Metric]] = {}
    """What it measures besides the task's own scores and the loss."""

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        raise NotImplementedError

    def measurement(self, name: str, value: float | None, at: Place, **fields: Any) -> Measurement:
        """A measurement on test, in the unit of the quantity."""
        fields = {"split": "test", **fields}
        return Measurement(name, self.metrics[name].unit, value, coordinates=dict(at), **fields)

    def nothing(self, at: Place, reason: str) -> Measured:
        """Null for every quantity, and the reason."""
        return Measured([self.measurement(name, None, at, reason=reason) for name in self.metrics])


class Probe:
    """Measures what needs no training; it builds what it looks at."""

    metrics: ClassVar[dict[str, Metric]]

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        raise NotImplementedError

    def measurement(
        self, name: str, value: float | None, at: Place | None = None, **fields: Any
    ) -> Measurement:
        return Measurement(
            name, self.metrics[name].unit, value, coordinates=dict(at or {}), **fields
        )


class Benchmark:
    """Times an untrained model beside the baseline, in a session that has the machine to itself."""

    metrics: ClassVar[dict[str, Metric]]
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
def discover() -> Registry:
    """The registry, after importing every module of the three packages."""
    for package in map(importlib.import_module, PACKAGES):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    return MEASUREMENT


def is_benchmark(name: str) -> bool:
    return issubclass(discover().component(name), Benchmark)


def needs_weights(names: Iterable[str]) -> bool:
    """Whether one of these evaluations and probes measures a trained model."""
    return any(not issubclass(discover().component(name), Probe) for name in names)


def metrics_by_name(names: Iterable[str]) -> dict[str, Metric]:
    """Everything that these measure, besides the task's own scores."""
    return {
        metric: each
        for name in names
        for metric, each in discover().component(name).metrics.items()
    }
