"""A results folder: the plan, one file per trial, weights and unfinished trainings beside them.

A record is written once under its trial's id, whole or not at all.
"""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.store import plan_file
from ablations.store.files import NotAFileError, _beside, _cleared, read_file, write_atomic
from ablations.store.record import Record, RecordHead, T, timed_in
from ablations.store.schema import TRIAL, NewerRecordError, RecordError
from ablations.store.seal import seal, unseal, unseal_head, unseal_metric


@dataclass
class Asked:
    """What a plan asks of one trial."""

    size: float  # beside the others'
    measures: set[str]


_ANEW = "move it away and run again: no record is lost"


def _head(data: bytes) -> RecordHead:
    head, beside = unseal_head(data)
    return RecordHead.from_dict(head, timed_in(beside))


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
        plain = record.to_dict()
        text = seal(plain)  # first, for what JSON cannot say at all
        Record.from_dict(plain)
        write_atomic(self.path(record.trial), text)

    def read(self, trial: str) -> Record | None:
        """The trial's record, or None where there is none; RecordError where it is unusable."""
        return self._read(trial, lambda data: Record.from_dict(unseal(data)))

    def head(self, trial: str) -> RecordHead | None:
        """The same without its readings, whose bytes are checked but not taken apart."""
        return self._read(trial, _head)

    def score(self, trial: str, metric: str, split: str) -> float | None:
        """A metric at a trial's last step, and at no other coordinates; None where it has none."""
        data = self._bytes(trial)
        last: tuple[float, float | None] = (-math.inf, None)
        for reading in [] if data is None else unseal_metric(data, metric):
            at = dict(reading.get("at") or {})
            step = at.pop("step", math.inf)
            if not at and reading.get("split") in (None, split) and step >= last[0]:
                last = step, reading.get("value")
        return last[1]

    def _bytes(self, trial: str) -> bytes | None:
        path = self.path(trial)
        try:
            return read_file(path)
        except FileNotFoundError:
            return None
        except NotAFileError as error:
            raise RecordError(f"{path.name}: {error.strerror}") from None

    def _read(self, trial: str, take: Callable[[bytes], T]) -> T | None:
        path, data = self.path(trial), self._bytes(trial)
        if data is None:
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
            data = read_file(self.plan_file)
        except FileNotFoundError:
            raise RecordError(f"no plan in {self.root}: run an ablation there first") from None
        except NotAFileError as error:
            raise RecordError(f"{self.plan_file}: {error.strerror}; {_ANEW}") from None
        try:
            return plan_file.read_bytes(data)
        except NewerRecordError as error:
            raise NewerRecordError(f"{self.plan_file}: {error}") from None
        except RecordError as error:
            problem = f"{self.plan_file}: {error}; {_ANEW}"
            raise RecordError(problem) from None

    def planned(self) -> dict[str, dict[str, Asked]]:
        """The trials of each ablation of the plan, and what is asked of them."""
        return {
            name: {
                cell["trial"]: Asked(float(cell["work"]), set(cell["measures"]))
                for cell in entry["cells"]
            }
            for name, entry in self.read_plan()["ablations"].items()
        }

    def names(self) -> dict[str, str]:
        """Each table of the plan, and the question that it belongs to."""
        return {name: entry["name"] for name, entry in self.read_plan()["ablations"].items()}

    def write_plan(self, plan: dict[str, Any]) -> None:
        write_atomic(self.plan_file, plan_file.write_bytes(plan))
