"""A results folder: the plan, one file per trial, weights and unfinished trainings beside them.

A record is written once under its trial's id, whole or not at all.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from ablations.store.files import NotAFileError, beside, cleared, read_file, write_atomic
from ablations.store.plan_file import PLAN
from ablations.store.record import RECORD, Record
from ablations.store.schema import TRIAL, NewerRecordError, RecordError, decode, encode

_ANEW = "move it away and run again: no record is lost"


def _record(data: bytes, trial: str) -> Record:
    """The record in these bytes, if it is whole and of this trial."""
    record = decode(data, RECORD)
    if record.id != trial:
        raise RecordError(f"holds trial {record.id}")
    record.check()
    return record


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

    def weights(self, trial: str) -> Path:
        return self.checkpoints / f"{trial}.safetensors"

    def unfinished(self, trial: str) -> Path:
        """Where a training that has not ended yet is kept."""
        return self.checkpoints / f"{trial}.unfinished"

    def forget_unfinished(self, trial: str) -> None:
        """Its record is written: what it would have gone on from can go."""
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
        """OSError where nothing can be kept; to be asked before anything is computed."""
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
        """The plan of this folder: what was asked, and which trial answers it."""
        try:
            data = read_file(self.plan_file)
        except FileNotFoundError:
            raise RecordError(f"no plan in {self.root}: run an ablation there first") from None
        except NotAFileError as error:
            raise RecordError(f"{self.plan_file}: {error.strerror}; {_ANEW}") from None
        try:
            plan: dict[str, Any] = decode(data, PLAN)
        except NewerRecordError as error:
            raise NewerRecordError(f"{self.plan_file}: {error}") from None
        except RecordError as error:
            raise RecordError(f"{self.plan_file}: {error}; {_ANEW}") from None
        return plan

    def write_plan(self, plan: dict[str, Any]) -> None:
        """A plan that is not shaped like one is never written."""
        data = encode(plan)
        decode(data, PLAN)
        write_atomic(self.plan_file, data)
