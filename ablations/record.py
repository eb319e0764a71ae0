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
import re
import secrets
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from ablations.schema import SCHEMA as SCHEMA
from ablations.schema import STATUSES as STATUSES
from ablations.schema import TRIAL, check_head, check_readings, check_schema
from ablations.schema import NewerRecordError as NewerRecordError
from ablations.schema import RecordError as RecordError
from ablations.seal import seal, unseal, unseal_head

T = TypeVar("T", "Record", "Head")

TRAINED = ("ok", "diverged", "stuck")  # training came to an end, so the readings mean something


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
    attempts: int = 1
    parameters: int | None = None
    flops_per_token: float | None = None
    env: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    measures: list[str] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    examples: list[dict[str, str]] = field(default_factory=list)
    schema: int = SCHEMA

    @property
    def timed(self) -> set[tuple[str, str]]:
        """What was timed, and beside which trial."""
        return {(r.metric, r.against) for r in self.readings if r.against is not None}

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
class Head:
    """What a record says besides its readings: enough to know what is done."""

    trial: str
    status: str
    config: dict[str, Any]
    reason: str | None
    attempts: int
    parameters: int | None
    env: dict[str, Any]
    measures: list[str]
    timed: set[tuple[str, str]]

    @classmethod
    def from_dict(cls, head: Any, timed: set[tuple[str, str]]) -> Head:
        check_schema(head)
        check_head(head)
        wanted = {name: head[name] for name in cls.__dataclass_fields__ if name in head}
        return cls(**wanted, timed=timed)


@dataclass
class Asked:
    """What a plan asks of one trial."""

    size: float  # beside the others'
    measures: set[str]


def _asked(cell: dict[str, Any]) -> Asked:
    return Asked(float(cell.get("work", 1)), set(cell.get("measures", ())))


def _without_blanks(plain: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a reading does not have, but keep a null value: it is a result."""
    kept = {name: value for name, value in plain.items() if value not in (None, {})}
    if "samples" not in kept and "values" not in kept:
        kept["value"] = plain["value"]
    return kept


_ANEW = "move it away and run again: no record is lost"


class Results:
    """A results folder: the plan, one file per trial, checkpoints beside them."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        self.plan_file = self.root / "plan.json"
        self.trials = self.root / "trials"
        self.checkpoints = self.root / "checkpoints"

    def path(self, trial: str) -> Path:
        if not TRIAL.fullmatch(trial):
            raise RecordError(f"{trial[:40]!r} is no trial id")
        return self.trials / f"{trial}.json"

    def checkpoint(self, trial: str) -> Path:
        return self.checkpoints / f"{trial}.safetensors"

    def in_training(self, trial: str) -> Path:
        """Where a training that has not ended yet is kept."""
        return self.checkpoints / f"{trial}.training"

    def end_training(self, trial: str) -> None:
        """Its record is written: what it would have gone on from can go."""
        newest = self.in_training(trial)
        for path in (newest, newest.with_name(f"{newest.name}.previous")):
            path.unlink(missing_ok=True)

    def write(self, record: Record) -> None:
        plain = record.to_dict()
        text = seal(plain)  # first, for what JSON cannot say at all
        Record.from_dict(plain)
        write_atomic(self.path(record.trial), text)

    def read(self, trial: str) -> Record | None:
        """The trial's record, or None where there is none; RecordError where it is unusable."""
        return self._read(trial, lambda data: Record.from_dict(unseal(data)))

    def head(self, trial: str) -> Head | None:
        """The same without its readings, whose bytes are checked but not taken apart."""
        return self._read(trial, lambda data: Head.from_dict(*unseal_head(data)))

    def _read(self, trial: str, take: Callable[[bytes], T]) -> T | None:
        path = self.path(trial)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            found = take(data)
            if found.trial != trial:
                raise RecordError(f"holds trial {found.trial}")
        except RecordError as error:
            raise type(error)(f"{path.name}: {error}") from None
        return found

    def check_writable(self) -> None:
        """OSError where nothing can be kept; to be asked before anything is computed."""
        for folder in (self.trials, self.checkpoints):
            folder.mkdir(parents=True, exist_ok=True)
            probe = _beside(folder / "probe")
            with _cleared(probe, folder):
                probe.write_bytes(bytes(4096))
            probe.unlink()

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
        except (ValueError, RecursionError) as error:
            problem = f"{self.plan_file}: not readable as JSON ({error}); {_ANEW}"
            raise RecordError(problem) from None
        if not isinstance(plan, dict) or plan.get("schema") != SCHEMA:
            raise RecordError(f"{self.plan_file}: not a plan of schema {SCHEMA}; {_ANEW}")
        return plan

    def planned(self) -> dict[str, dict[str, Asked]]:
        """The trials of each ablation of the plan, and what is asked of them."""
        plan = self.read_plan()
        try:
            return {
                name: {str(cell["trial"]): _asked(cell) for cell in entry["cells"]}
                for name, entry in plan["ablations"].items()
            }
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self.misshapen() from None

    def misshapen(self) -> RecordError:
        return RecordError(f"{self.plan_file}: not shaped like a plan; {_ANEW}")

    def write_plan(self, plan: dict[str, Any]) -> None:
        text = json.dumps(plan, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
        write_atomic(self.plan_file, text.encode("utf-8", "backslashreplace"))


_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def writer_of(temporary: str) -> int | None:
    """The process of this machine that wrote, or writes, a temporary file; None: who knows."""
    match = re.fullmatch(rf"\..+\.{_HOST}-(\d{{1,9}})-[0-9a-f]{{8}}\.tmp", temporary)
    return int(match[1]) if match else None


def _beside(path: Path) -> Path:
    return path.parent / f".{path.name}.{_HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp"


@contextlib.contextmanager
def _cleared(temporary: Path, path: Path) -> Iterator[None]:
    """Leave no half of a file behind, and say where it was that the disk was full."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename is None:
            error.filename = str(path)
        raise


def write_atomic(path: Path, content: str | bytes) -> None:
    """The old or the new, never a mix: write beside, sync, rename over, sync the folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    with _cleared(temporary, path), open(temporary, "xb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
        os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
