"""What is known of a trial, and the folder that keeps it.

A record is written once under its trial's id, whole or not at all. This module is the only door
between measuring and analysing, so it knows neither torch nor pandas.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = 1
STATUSES = ("ok", "diverged", "stuck", "oom", "error", "timeout", "killed")
TRAINED = ("ok", "diverged", "stuck")  # training came to an end, so the readings mean something


class RecordError(ValueError):
    """A file in a results folder that cannot be used, with the reason in one line."""


class NewerRecordError(RecordError):
    """Written by a later version of this code: to be left alone."""


@dataclass
class Reading:
    """One measured number, one set of paired samples, or one small array with named axes."""

    metric: str
    unit: str
    value: float | None = None
    split: str | None = None
    at: dict[str, float] = field(default_factory=dict)
    session: str | None = None
    against: str | None = None  # the trial whose times are in `reference`
    samples: list[float] | None = None
    reference: list[float] | None = None
    twin: list[float] | None = None  # the reference once more, under another name: the noise floor
    axes: list[str] | None = None
    values: list[Any] | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
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
    attempts: int = 1
    parameters: int | None = None
    flops_per_token: float | None = None
    env: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    measures: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    examples: list[dict[str, str]] = field(default_factory=list)
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in vars(self).items() if name != "readings"}
        plain["readings"] = [_without_blanks(vars(reading)) for reading in self.readings]
        return {"schema": plain.pop("schema"), **plain}

    @classmethod
    def from_dict(cls, plain: Any) -> Record:
        """A record from parsed JSON; a RecordError says in one line what is wrong with it."""
        if not isinstance(plain, dict):
            raise RecordError("not a record: expected a JSON object")
        if not isinstance(plain.get("schema"), int):
            raise RecordError("not a record: it has no schema number")
        if plain["schema"] > SCHEMA:
            raise NewerRecordError(
                f"written by a newer version (schema {plain['schema']}, this one reads {SCHEMA}): "
                "update the code or use another results folder"
            )
        fields = {name: plain[name] for name in cls.__dataclass_fields__ if name in plain}
        unknown = sorted(set(plain) - set(fields))
        if unknown:
            raise RecordError(f"unknown field {unknown[0]!r}")
        for name, kind in _TYPES.items():
            if name not in fields or not isinstance(fields[name], kind):
                raise RecordError(f"field {name!r} is missing or of the wrong type")
        if fields["status"] not in STATUSES:
            raise RecordError(f"unknown status {fields['status']!r}")
        try:
            fields["readings"] = [Reading(**reading) for reading in fields["readings"]]
        except (TypeError, ValueError, OverflowError) as error:
            raise RecordError(f"bad reading: {error}") from None
        return cls(**fields)


_TYPES: dict[str, type] = {
    "trial": str,
    "status": str,
    "config": dict,
    "env": dict,
    "data": dict,
    "measures": list,
    "readings": list,
    "examples": list,
}


def _without_blanks(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a reading does not have, but keep a null value: it is a result."""
    kept = {name: value for name, value in plain.items() if value not in (None, {})}
    if "samples" not in kept and "values" not in kept:
        kept["value"] = plain["value"]
    return kept


class Results:
    """A results folder: the plan, one file per trial, checkpoints beside them."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.plan_file = self.root / "plan.json"
        self.trials = self.root / "trials"
        self.checkpoints = self.root / "checkpoints"

    def path(self, trial: str) -> Path:
        return self.trials / f"{trial}.json"

    def checkpoint(self, trial: str) -> Path:
        return self.checkpoints / f"{trial}.safetensors"

    def in_training(self, trial: str) -> Path:
        """Where a training that has not ended yet is kept."""
        return self.checkpoints / f"{trial}.training"

    def end_training(self, trial: str) -> None:
        """Its record is written: what it would have gone on from can go."""
        for pattern in (f"{trial}.training*", f".{trial}.training.*.tmp"):
            for path in self.checkpoints.glob(pattern):
                path.unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        plain = record.to_dict()
        write_atomic(self.path(record.trial), _strict_json({**plain, "sha256": checksum(plain)}))

    def read(self, trial: str) -> Record | None:
        """The trial's record, or None where there is none; RecordError where it is unusable."""
        path = self.path(trial)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            raise RecordError(f"{path.name}: not UTF-8") from None
        try:
            plain = json.loads(text, parse_constant=_refuse_constant)
            digest = plain.pop("sha256", None) if isinstance(plain, dict) else None
            record = Record.from_dict(plain)
            if digest != checksum(plain):
                raise RecordError("damaged: it is not what was written")
        except RecordError as error:
            raise type(error)(f"{path.name}: {error}") from None
        except (ValueError, RecursionError) as error:
            raise RecordError(f"{path.name}: not readable as JSON ({error})") from None
        if record.trial != trial:
            raise RecordError(f"{path.name}: holds trial {record.trial}")
        return record

    def set_aside(self, trial: str) -> Path:
        """Move an unusable record out of the way without losing a byte of it."""
        target = self.path(trial).with_suffix(f".bad-{secrets.token_hex(4)}")
        os.replace(self.path(trial), target)
        return target

    def read_plan(self) -> dict[str, Any]:
        """The plan of this folder: what was asked, and which trial answers it."""
        try:
            plan = json.loads(self.plan_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise RecordError(f"no plan in {self.root}: run an ablation there first") from None
        except ValueError as error:
            raise RecordError(f"{self.plan_file}: not readable as JSON ({error})") from None
        if not isinstance(plan, dict) or plan.get("schema") != SCHEMA:
            raise RecordError(f"{self.plan_file}: not a plan of schema {SCHEMA}")
        return plan

    def write_plan(self, plan: dict[str, Any]) -> None:
        write_atomic(self.plan_file, _strict_json(plan))


def _strict_json(plain: Any) -> str:
    return json.dumps(plain, indent=1, allow_nan=False, ensure_ascii=False) + "\n"


def checksum(plain: Any) -> str:
    """What a record carries so that a flipped bit is noticed."""
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is not strict JSON")


def write_atomic(path: Path, content: str | bytes) -> None:
    """The old or the new, never a mix: write beside, sync, rename over, sync the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        with open(temporary, "xb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
