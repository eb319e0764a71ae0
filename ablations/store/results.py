"""A results folder: the plan, one file per trial, weights and unfinished trainings beside them.

A record is written once under its trial's id, whole or not at all.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from ablations.store.files import NotAFileError, beside, cleared, read_file, write_atomic
from ablations.store.record import RECORD, Number, Record, TrialId
from ablations.store.schema import STRICT, TRIAL, NewerRecordError, RecordError, decode, encode

_ANEW = "move it away and run again: no record is lost"
_Objects = list[dict[str, Any]]


class _Claim(TypedDict):
    id: str
    statement: str
    source: str
    predicts: _Objects
    require: _Objects


class _Trial(TypedDict):
    variant: str
    seed: Annotated[int, Field(ge=0)]
    factors: dict[str, str]
    id: TrialId
    settings: str
    tuned: dict[str, Any]
    sources: list[str]
    work: Annotated[Number, Field(ge=0)]


class _Metric(TypedDict):
    unit: str
    better: Literal["lower", "higher"]
    title: str
    repeats: NotRequired[Literal["seeds", "processes", "nothing"]]
    matters: NotRequired[Number | None]
    beside: NotRequired[dict[str, Any]]
    """Coordinates of the baseline that differ from the variant's."""


class _Decisive(_Metric):
    name: str
    split: str


class _Experiment(TypedDict):
    name: str
    question: str
    task: str
    baseline: str
    held_constant: str
    changes: str
    claims: list[_Claim]
    tuning: _Objects
    grid: dict[str, list[Any]]
    overrides: list[str]
    profile: str
    metric: _Decisive
    metrics: dict[str, _Metric]
    seed_batches: list[list[int]]
    trials: list[_Trial]


class _Plan(TypedDict):
    __pydantic_config__ = STRICT  # type: ignore[misc]  # also of what it holds
    profile: str
    experiments: dict[str, _Experiment]


_PLAN: TypeAdapter[Any] = TypeAdapter(_Plan)


def _record(data: bytes, trial: str) -> Record:
    """The record in these bytes, if it is whole and of this trial."""
    record = decode(data, RECORD)
    if record.id != trial:
        raise RecordError(f"holds trial {record.id}")
    record.check()
    return record


class Results:
    """A results folder."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.plan_file = self.root / "plan.json"
        self.trials = self.root / "trials"
        self.checkpoints = self.root / "checkpoints"

    def path(self, trial: str) -> Path:
        if not TRIAL.fullmatch(trial):
            raise RecordError(f"{trial[:40]!r} is no trial id")
        return self.trials / f"{trial}.json"

    def weights(self, trial: str) -> Path:
        return self.checkpoints / f"{trial}.safetensors"

    def unfinished(self, trial: str) -> Path:
        """The checkpoint of a training that has not ended."""
        return self.checkpoints / f"{trial}.unfinished"

    def forget_unfinished(self, trial: str) -> None:
        """Delete the checkpoints of a training that has its record."""
        newest = self.unfinished(trial)
        for path in (newest, newest.with_name(f"{newest.name}.previous")):
            path.unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        data = encode(record.to_dict())
        _record(data, record.id)
        write_atomic(self.path(record.id), data)

    def read(self, trial: str) -> Record | None:
        """The trial's record, or None where there is none; RecordError where it is unusable."""
        path = self.path(trial)
        try:
            return _record(read_file(path), trial)
        except FileNotFoundError:
            return None
        except NotAFileError as error:
            raise RecordError(f"{path.name}: {error.strerror}") from None
        except RecordError as error:
            raise type(error)(f"{path.name}: {error}") from None

    def check_writable(self) -> None:
        """OSError if the folder cannot be written to."""
        for folder in (self.trials, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
            probe = beside(folder / "probe")
            with cleared(probe, folder):
                probe.write_bytes(bytes(4096))
            probe.unlink()

    def set_aside(self, trial: str) -> Path:
        """Move an unusable record out of the way without losing a byte of it."""
        target = self.path(trial).with_suffix(f".bad-{secrets.token_hex(4)}")
        os.replace(self.path(trial), target)
        return target

    def read_plan(self) -> dict[str, Any]:
        """The content of plan.json; RecordError if it is missing or unusable."""
        try:
            data = read_file(self.plan_file)
        except FileNotFoundError:
            raise RecordError(f"no plan in {self.root}: run an ablation there first") from None
        except NotAFileError as error:
            raise RecordError(f"{self.plan_file}: {error.strerror}; {_ANEW}") from None
        try:
            plan: dict[str, Any] = decode(data, _PLAN)
        except NewerRecordError as error:
            raise NewerRecordError(f"{self.plan_file}: {error}") from None
        except RecordError as error:
            raise RecordError(f"{self.plan_file}: {error}; {_ANEW}") from None
        return plan

    def write_plan(self, plan: dict[str, Any]) -> None:
        """Check the plan, then write it."""
        data = encode(plan)
        decode(data, _PLAN)
        write_atomic(self.plan_file, data)
