"""What is known of a trial.

This room is the only door between measuring and analysing, so it knows neither torch nor pandas.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ablations.store.frozen import freeze
from ablations.store.identity import decisive, settings
from ablations.store.schema import SCHEMA, check_head, check_readings, check_schema
from ablations.store.stamp import Stamp, changed

T = TypeVar("T", "Record", "RecordHead")
Timed = tuple[str, str, str]
"""A measure, the trial beside which it was taken, and where, as one text."""


TRAINING = "training"  # what takes the readings that no measure does
TRAINED = ("ok", "diverged", "stuck")  # training came to an end, so the readings mean something
WHOLE = ("ok", "stuck")  # trained to the end, so their time tells of the others'


@dataclass
class Reading:
    """One measured number, one set of paired samples, or one small array with named axes."""

    metric: str
    unit: str
    value: float | None = None
    split: str | None = None
    at: dict[str, float | str] = field(default_factory=dict)
    session: str | None = None
    against: str | None = None  # the trial whose times are in `reference`
    samples: list[float] | None = None
    reference: list[float] | None = None
    twin: list[float] | None = None  # the reference once more, under another name: the noise floor
    axes: dict[str, list[Any]] | None = None
    """Of `values`, from the outermost in: name → the places along it, words or numbers."""
    values: list[Any] | None = None
    reason: str | None = None
    measure: str = TRAINING
    """What took it, where that is a measure; `Record.take` says so."""

    def __post_init__(self) -> None:
        if not self.metric or not self.unit:
            raise ValueError(f"reading {self.metric!r} in {self.unit!r}: name a metric and a unit")
        if self.value is not None and not math.isfinite(self.value):
            self.reason = self.reason or f"not finite ({self.value})"
            self.value = None
        for array in (self.samples, self.reference, self.twin, self.values):
            if array is not None and not _all_finite(array):
                raise ValueError(f"reading {self.metric!r} has an array that is not finite")
        if self.value is None and self.samples is None and self.values is None and not self.reason:
            raise ValueError(f"reading {self.metric!r} has neither a value nor a reason")


def _all_finite(array: Any) -> bool:
    if isinstance(array, list):
        return all(map(_all_finite, array))
    return array is None or math.isfinite(array)


@dataclass
class Record:
    """Everything known of one trial."""

    trial: str
    status: str
    config: dict[str, Any]
    reason: str | None = None
    """For people: why it failed, diverged or got stuck. Nothing is decided by it."""
    trained: bool = True
    """Whether the model was trained; what is read off an untrained one is another trial's."""
    attempts: int = 1
    parameters: int | None = None
    flops_per_token: float | None = None
    env: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    measures: dict[str, Stamp] = field(default_factory=dict)
    """What has been taken, each with the source files that took it."""
    failures: dict[str, str] = field(default_factory=dict)
    """What was tried since training ended and failed: a measure or a retraining, and why."""
    readings: list[Reading] = field(default_factory=list)
    items: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → what each example of test had in it, such as its number of edits."""
    examples: list[dict[str, str]] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def settings(self) -> str | None:
        """What decides its numbers besides the seed, as a plan tells it; None: it does not say."""
        try:
            parts = decisive(self.config, self.data["sha256"], self.data["files"], self.trained)
        except (KeyError, TypeError, AttributeError):
            return None
        return settings(parts)

    @property
    def timed(self) -> set[Timed]:
        return timed_in(vars(reading) for reading in self.readings)

    def take(self, measure: str, made_by: Stamp, readings: list[Reading]) -> None:
        """Put what a measure has read in place of what it had read before."""
        for reading in readings:
            reading.measure = measure
        self.readings = [each for each in self.readings if each.measure != measure] + readings
        self.measures[measure] = made_by
        self.failures.pop(measure, None)

    def to_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name != "readings"}
        plain["readings"] = [_without_blanks(vars(reading)) for reading in self.readings]
        return {"schema": plain.pop("schema"), **plain}

    @classmethod
    def from_dict(cls, plain: Any) -> Record:
        """A record from parsed JSON; a RecordError says in one line what is wrong with it."""
        check_schema(plain)
        head = dict(plain)
        readings = head.pop("readings", None)
        check_head(head)
        check_readings(readings)
        return cls(**head, readings=[Reading(**reading) for reading in readings])


@dataclass
class RecordHead:
    """What a record says besides its readings: enough to know what is done."""

    trial: str
    status: str
    config: dict[str, Any]
    reason: str | None
    trained: bool
    attempts: int
    parameters: int | None
    env: dict[str, Any]
    data: dict[str, Any]
    measures: dict[str, Stamp]
    failures: dict[str, str]
    timed: set[Timed]

    @classmethod
    def from_dict(cls, head: Any, timed: set[Timed]) -> RecordHead:
        check_schema(head)
        check_head(head)
        wanted = {name: head[name] for name in cls.__dataclass_fields__ if name in head}
        return cls(**wanted, timed=timed)


def timed_in(readings: Iterable[Mapping[str, Any]]) -> set[Timed]:
    """What was timed, beside which trial, and where."""
    return {
        (reading["measure"], reading["against"], freeze(reading.get("at") or {}))
        for reading in readings
        if reading.get("against") is not None
    }


def is_stale(held: Record | RecordHead, asked: Iterable[str]) -> bool:
    """Whether other code has made it, or one of the measures that are asked for, than is here."""
    made_by = [held.env.get("code") or {}, *(held.measures.get(name, {}) for name in asked)]
    return any(map(changed, made_by))


def _without_blanks(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a reading does not have, but keep a null value: it is a result."""
    kept = {name: value for name, value in plain.items() if value not in (None, {})}
    if "samples" not in kept and "values" not in kept:
        kept["value"] = plain["value"]
    return kept
