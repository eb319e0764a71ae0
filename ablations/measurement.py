"""The base classes of evaluations, probes and benchmarks, and their registry."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.store.identity import canonical_json
from ablations.store.record import Measurement
from ablations.tasks.task import Example, Task
from ablations.tasks.task import Metric as Metric
from model.build import build
from model.config import ConfigError, Registry, nearest

MEASUREMENT = Registry("measurement")
PACKAGES = ("ablations.evaluations", "ablations.probes", "ablations.benchmarks")

Place = Mapping[str, float | str]
"""The coordinates of a measurement: {"length": 64, "batch": 1, "pass": "training"}."""


@dataclass
class Measured:
    """The result of an evaluation or a probe."""

    measurements: list[Measurement]
    examples: list[Example] = field(default_factory=list)
    """Decoded answers, where there are any."""
    per_example: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → its value for each example of test."""


class _Source:
    metrics: ClassVar[dict[str, Metric]] = {}
    """Its metrics, besides the loss and the task's scores."""
    split: ClassVar[str | None] = None

    def measurement(
        self, name: str, value: float | None, at: Place | None = None, **fields: Any
    ) -> Measurement:
        """A measurement in the unit of its metric; `split` is this source's by default."""
        fields = {"split": self.split, "coordinates": dict(at or {}), **fields}
        return Measurement(name, self.metrics[name].unit, value, **fields)


class Evaluation(_Source):
    """Measures a trained model, so it can be added later without training again."""

    split = "test"

    def measure(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Measured:
        raise NotImplementedError

    def nothing(self, at: Place, reason: str) -> Measured:
        """Null for every metric, and the reason."""
        return Measured([self.measurement(name, None, at, reason=reason) for name in self.metrics])


class Probe(_Source):
    """Measures an untrained model, which it builds itself."""

    def measure(self, config: dict[str, Any], task: Task, device: torch.device) -> Measured:
        raise NotImplementedError


class Benchmark:
    """Times an untrained model beside the baseline, in a session that has the machine to itself."""

    metrics: ClassVar[dict[str, Metric]]
    """The first is what is timed."""
    places: ClassVar[dict[str, list[Any]]]
    """Coordinate → where it is timed, unless an experiment says otherwise."""
    words: ClassVar[dict[str, tuple[str, ...]]] = {}
    """The values of each coordinate that is a word."""
    along: ClassVar[str] = "length"
    """The coordinate that rises; after a call that takes too long, larger values are skipped."""
    beside: ClassVar[dict[str, Any]] = {}
    """The baseline's coordinates where they differ from the candidate's."""

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        """The call that is timed, with everything it needs already made."""
        raise NotImplementedError


def untrained(
    config: dict[str, Any], task: Task, device: torch.device | str = "cpu", **changes: Any
) -> Any:
    """The untrained model of a trial, with these settings changed."""
    written = {**config["model"], **changes}
    return build(written, task.source_size, task.target_size, config["seed"]).to(device)


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
    """Name → metric of these sources."""
    return {
        metric: each
        for name in names
        for metric, each in discover().component(name).metrics.items()
    }


# Where benchmarks are timed.

TOKENS = "tokens"  # of a batch: instead of how many sequences it has


def where_timed(
    benchmark: str,
    given: Mapping[str, Any],
    longest: int | None = None,
    lengths: int | None = None,
) -> list[Place]:
    """Every combination of coordinates, up to the profile's `longest` and at most `lengths`."""
    part: Any = discover().component(benchmark)
    _check_places(benchmark, given, part)
    wanted = {**part.places, **given}
    if TOKENS in given and "batch" not in given:
        wanted["batch"] = []
    walked = _thinned(wanted.pop(part.along), longest, lengths)
    batches = [{"batch": batch} for batch in wanted.pop("batch", [])]
    batches += [{TOKENS: tokens} for tokens in wanted.pop(TOKENS, [])]
    batches = batches if "batch" in part.places else [{}]
    rest = [
        dict(zip(wanted, values, strict=True)) for values in itertools.product(*wanted.values())
    ]
    found: list[Place] = []
    for batch, others, far in itertools.product(batches, rest, walked):
        # A budget of tokens makes the batch at this length.
        filled = {"batch": max(1, batch[TOKENS] // far)} if TOKENS in batch else {}
        found.append({part.along: far, **batch, **others, **filled})
    return list({canonical_json(at): at for at in found}.values())


def _thinned(values: Sequence[int], longest: int | None, lengths: int | None) -> list[int]:
    """As many of the values as a profile allows, the first and the last among them."""
    inside = [v for v in values if longest is None or v <= longest]
    inside = inside or list(values[:1])
    if lengths is None or len(inside) <= lengths:
        return inside
    last, parts = len(inside) - 1, lengths - 1
    return [inside[round(i * last / parts)] for i in range(lengths)]


def _check_places(benchmark: str, given: Mapping[str, Any], part: Any) -> None:
    problems, known = [], part.places
    words = [*known, *([TOKENS] if "batch" in known else [])]
    for name, values in given.items():
        place = f"benchmarks.{benchmark}.{name}"
        if name not in words:
            problems.append(f"{place}: no such coordinate. {nearest(str(name), words)}")
        elif not isinstance(values, list) or not values:
            problems.append(f"{place}: expected a list of values, got {values!r}")
        elif name in part.words:
            problems += [
                f"{place}: no '{str(word)[:40]}'. {nearest(str(word)[:40], part.words[name])}"
                for word in values
                if word not in part.words[name]
            ]
        else:
            whole = all(isinstance(v, int) and not isinstance(v, bool) and v > 0 for v in values)
            if not whole or sorted(set(values)) != values:
                problems.append(f"{place}: expected whole numbers that rise, got {values!r}")
    if problems:
        raise ConfigError(problems)
