"""The record of a trial. Imports neither torch nor pandas: `analysis` reads records, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, GetPydanticSchema, TypeAdapter
from typing_extensions import TypedDict

from ablations.store.identity import canonical_json, decisive, identity, settings
from ablations.store.schema import (
    FAILED,
    SCHEMA,
    STATUSES,
    STRICT,
    TRIAL,
    RecordError,
    check_schema,
    encode,
    parse,
)
from ablations.store.stamp import Stamp, changed

TRAINING = "training"  # the source of the measurements that training takes itself
TRAINED = ("ok", "diverged", "stuck")  # training came to an end, so the measurements mean something
WHOLE = ("ok", "stuck")  # trained for all steps, so the time is typical

_LARGEST = 1 << 1023  # about the largest float


def _checked_as(kind: Any, words: str = "") -> Any:
    """Check a value as another kind than its annotation says; `words` say what a union expects."""
    message = {"custom_error_type": "kind", "custom_error_message": f"expected {words}"}
    return GetPydanticSchema(lambda _, handler: {**handler(kind), **(message if words else {})})


_INTEGER = Annotated[int, Field(ge=-_LARGEST, le=_LARGEST)]
Number = Annotated[float, _checked_as(_INTEGER | float, "a finite number")]
Coordinate = Annotated[float | str, _checked_as(_INTEGER | float | str, "words or a finite number")]
Word = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=_LARGEST)]
TrialId = Annotated[str, Field(pattern=f"^{TRIAL.pattern}$")]
Times = Annotated[list[Number], Field(min_length=1)]


class _Attempt(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]
    status: Word
    reason: str
    seconds: Annotated[Number, Field(ge=0)] | None


class _Env(TypedDict, total=False):
    """The fields of `env` that are read; it may have others."""

    __pydantic_config__ = ConfigDict(strict=True, extra="allow")  # type: ignore[misc]
    code: dict[str, Word] | None
    seconds: Annotated[Number, Field(ge=0)] | None
    earlier: list[_Attempt]
    sessions: dict[str, dict[str, Any]]


@dataclass
class Measurement:
    """One measured number, one set of paired samples, or one small array with named axes."""

    __pydantic_config__ = STRICT

    metric: Word
    unit: Word
    value: Number | None = None
    split: Word | None = None
    coordinates: dict[str, Coordinate] = field(default_factory=dict)
    session: Word | None = None
    baseline: Word | None = None  # the trial whose times are in `baseline_samples`
    samples: Times | None = None
    baseline_samples: Times | None = None
    baseline_again: Times | None = None  # the baseline once more: the noise floor
    axes: dict[Word, list[Coordinate]] | None = None
    """The axes of `values`, the outermost first: name → labels."""
    values: list[Any] | None = None
    reason: Word | None = None
    source: Word = TRAINING
    """The evaluation, probe or benchmark that took it."""

    def __post_init__(self) -> None:
        name = f"measurement {self.metric!r}"
        if not self.metric or not self.unit:
            raise ValueError(f"{name} in {self.unit!r}: name a metric and a unit")
        if self.value is not None and not math.isfinite(self.value):
            self.reason = self.reason or f"not finite ({self.value})"
            self.value = None
        if self.samples is None and self.values is None:
            if self.value is None and not self.reason:
                raise ValueError(f"{name} has neither a value nor a reason")
            return
        series = (self.samples, self.baseline_samples, self.baseline_again)
        by_block = [each for each in series if each is not None]
        if not all(math.isfinite(time) for times in by_block for time in times):
            raise ValueError(f"{name} has a time that is not finite")
        if len(set(map(len, by_block))) > 1:
            raise ValueError(f"{name} has not one time of each for every block")
        shape = [len(places) for places in (self.axes or {}).values()]
        if self.values is not None and not _fills(self.values, shape):
            raise ValueError(f"{name} has values that do not fill its axes with finite numbers")


def _fills(array: Any, shape: list[int]) -> bool:
    """Whether an array has a level for each axis, and in it a number or null for each place."""
    if not shape:
        is_number = isinstance(array, int | float) and not isinstance(array, bool)
        return array is None or (is_number and math.isfinite(array))
    is_level = isinstance(array, list) and len(array) == shape[0]
    return is_level and all(_fills(each, shape[1:]) for each in array)


@dataclass
class Record:
    """Everything known of one trial."""

    __pydantic_config__ = STRICT

    id: TrialId
    status: Annotated[str, _checked_as(Literal[STATUSES])]
    config: dict[str, Any]
    reason: str | None = None
    """Why it failed, diverged or got stuck; only people read it."""
    trained: bool = True
    """False if its model is only probed and timed."""
    attempts: Annotated[int, Field(ge=1, le=_LARGEST)] = 1
    parameters: Count | None = None
    flops_per_token: Number | None = None
    env: Annotated[dict[str, Any], _checked_as(_Env)] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    sources: dict[str, dict[str, Word]] = field(default_factory=dict)
    """Evaluation, probe or benchmark → the stamp of its code."""
    failures: dict[str, str] = field(default_factory=dict)
    """What failed after training, such as an evaluation → why."""
    per_example: dict[str, list[Number | None]] = field(default_factory=dict)
    """Metric → its value for each test example, such as the number of edits."""
    examples: list[dict[str, str]] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)

    @property
    def settings(self) -> str | None:
        """The digest of what decides its numbers besides the seed; None if that is unknown."""
        parts = self._parts()
        return None if parts is None else settings(parts)

    def _parts(self) -> dict[str, str] | None:
        try:
            return decisive(self.config, self.data["sha256"], self.data["files"], self.trained)
        except (KeyError, TypeError, AttributeError):
            return None

    def timed(self, benchmark: str, baseline: str) -> set[str]:
        """The places at which it was timed with this baseline, as canonical JSON."""
        return {
            canonical_json(each.coordinates)
            for each in self.measurements
            if (each.source, each.baseline) == (benchmark, baseline)
        }

    def take(self, measure: str, made_by: Stamp, measurements: list[Measurement]) -> None:
        """Replace the measurements of one evaluation, probe or benchmark."""
        for measurement in measurements:
            measurement.source = measure
        self.measurements = [
            each for each in self.measurements if each.source != measure
        ] + measurements
        self.sources[measure] = made_by
        self.failures.pop(measure, None)

    def check(self) -> None:
        """Refuse fields that do not fit together."""
        if self.status in FAILED and not self.reason:
            raise RecordError(f"'reason': a record that says {self.status} must say why")
        if not self.trained and self.status in ("diverged", "stuck"):
            raise RecordError(f"'trained': a model that was not trained cannot be {self.status}")
        parts = self._parts()
        if parts is not None and "seed" in self.config:
            own = identity(parts, self.config["seed"])
            if own != self.id:
                raise RecordError(f"'id': says {self.id}, but its settings are of {own}")

    def to_dict(self) -> dict[str, Any]:
        plain = {"schema": SCHEMA, **vars(self)}
        plain["measurements"] = [
            _without_blanks(vars(measurement)) for measurement in self.measurements
        ]
        return plain

    @classmethod
    def from_dict(cls, plain: Any) -> Record:
        """A record from parsed JSON; a RecordError says in one line what is wrong with it."""
        check_schema(plain)
        return parse(b"{" + encode(plain).partition(b"\n")[2], RECORD)


RECORD = TypeAdapter(Record)


def is_stale(
    held: Record,
    asked: Iterable[str],
    check: Callable[[Stamp], list[str]] = changed,
) -> bool:
    """Whether the code of its training, or of these sources, has changed."""
    made_by = [held.env.get("code") or {}, *(held.sources.get(name, {}) for name in asked)]
    return any(map(check, made_by))


def final(measurements: Iterable[Measurement]) -> list[Measurement]:
    """The last of each metric, split and place, where it has a value; times of benchmarks and
    arrays are left out."""
    single = [each for each in measurements if each.session is None and each.values is None]
    last: dict[Any, Measurement] = {}
    for each in sorted(single, key=lambda each: float(each.coordinates.get("step", math.inf))):
        place = frozenset(item for item in each.coordinates.items() if item[0] != "step")
        last[each.metric, each.split, place] = each
    return [each for each in last.values() if each.value is not None]


def _without_blanks(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a measurement does not have, but keep a null value: it is a result."""
    kept = {name: value for name, value in plain.items() if value not in (None, {})}
    if "samples" not in kept and "values" not in kept:
        kept["value"] = plain["value"]
    return kept
