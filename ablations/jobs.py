"""What a sweep has to do, piece by piece: a trial to train and measure, or a session to time.

A piece is asked for its job only once it is claimed, and then reads anew what the folder holds:
another sweep may have done it by then.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ablations.claim import HOST
from ablations.config import FOLDER
from ablations.launch import Job, Outcome
from ablations.plan import Plan, Want, missing, untimed
from ablations.record import TRAINED, Head, Reading, Record, RecordError, Results

Attempt = dict[str, Any]
Holds = Callable[[str], bool]


@dataclass
class Setting:
    """What all jobs of one run share."""

    plan: Plan
    results: Results
    device: str
    imports: list[str]
    rerun: str | None = None
    limit: float | None = None
    call: str = "ablations.worker:run_trial"
    say: Callable[[str], None] = print

    @property
    def payload(self) -> dict[str, Any]:
        return {"device": self.device, "imports": self.imports, "env": code_version()}


class Piece(Protocol):
    """Something to do, under claims that nobody else may hold meanwhile."""

    id: str
    title: str
    claims: tuple[str, ...]

    def job(self) -> Job | None:
        """What is still to do; None if that is nothing."""

    def keep(self, outcome: Outcome, earlier: list[Attempt], holds: Holds) -> tuple[str, str]:
        """Write what came of it where the claim holds; how it ended, and a note for people."""


class TrialPiece:
    """One trial: trained and measured, or only measured where it is trained already."""

    def __init__(self, want: Want, setting: Setting) -> None:
        self.id, self.title = want.trial, want.title
        self.claims: tuple[str, ...] = (want.trial,)
        self._want, self._setting = want, setting
        self._seen = _stamp(setting.results.path(want.trial))
        self._only_measures = False
        self._before: list[Attempt] = []

    def job(self) -> Job | None:
        setting, want, results = self._setting, self._want, self._setting.results
        # What was to be made anew has been, if the file is another one now.
        rerun = setting.rerun if _stamp(results.path(want.trial)) == self._seen else None
        lacks = missing(replace(setting.plan, wanted={want.trial: want}), results, rerun)
        for line in lacks.set_aside:
            setting.say(line)
        if not lacks.train and not lacks.measure:
            return None
        record = lacks.measure[0][1] if lacks.measure else None
        self._only_measures = record is not None
        self._before = _attempts_of(results.head(want.trial)) if lacks.failed else []
        held = set() if record is None else set(record.measures)
        payload = {
            **setting.payload,
            "trial": want.trial,
            "config": want.config,
            "counts": want.counts,
            "code": want.code,
            "measures": [name for name in want.measures if name not in held],
            "record": None if record is None else record.to_dict(),
            "checkpoint": str(results.checkpoint(want.trial)),
            "in_training": str(results.in_training(want.trial)),
        }
        return Job(want.trial, setting.call, payload, seconds=setting.limit)

    def keep(self, outcome: Outcome, earlier: list[Attempt], holds: Holds) -> tuple[str, str]:
        if outcome.value is None and self._only_measures:
            # A measure that was added later has failed: what the trial knows already stays.
            return outcome.status, outcome.reason or ""
        if not holds(self.id):
            return "dropped", "another sweep has taken this trial over"
        record = self._record(outcome)
        if not self._only_measures and (attempts := [*self._before, *earlier]):
            record.attempts, record.env["earlier"] = len(attempts) + 1, attempts
        results = self._setting.results
        results.write(record)
        if record.status in TRAINED:  # any other may go on from its checkpoint
            results.end_training(record.trial)
        if outcome.value is not None and outcome.status != "done":
            return outcome.status, f"trained, not all measured: {outcome.reason}"
        status = "error" if record.reason and record.status == "ok" else record.status
        return status, _headline(record)

    def _record(self, outcome: Outcome) -> Record:
        """What the worker returned, or what is known of a trial whose worker failed."""
        if outcome.value is not None:
            try:
                return Record.from_dict(outcome.value)
            except RecordError as error:  # one bad worker must not end the sweep
                outcome = replace(outcome, status="error", reason=f"no record: {error}")
        reason = outcome.reason or outcome.status
        if outcome.detail:
            reason = f"{reason}\n{outcome.detail}"
        env = {**code_version(), "code": self._want.code, "device": self._setting.device}
        env["seconds"] = round(outcome.seconds, 3)
        return Record(self.id, outcome.status, self._want.config, reason=reason, env=env)


class SessionPiece:
    """One timing session: the trials that have no times yet, beside their reference.

    It claims its trials, whose records it writes to, and the machine, which it needs to itself.
    """

    def __init__(
        self, measure: str, reference: str, trials: Iterable[str], setting: Setting
    ) -> None:
        self.id = f"{measure}:{reference}"
        self._measure, self._reference = measure, setting.plan.wanted[reference]
        self._trials, self._setting = list(trials), setting
        self.title = f"{measure} of {len(self._trials)} beside {self._reference.title}"
        self.claims = (self.id, f"timing:{HOST}", *self._trials)

    def job(self) -> Job | None:
        plan, results = self._setting.plan, self._setting.results
        pair = self._measure, self._reference.trial
        candidates = {
            trial: plan.wanted[trial].config
            for trial in self._trials
            if pair in untimed(plan.wanted[trial], results.head(trial))
        }
        payload = {
            **self._setting.payload,
            "measure": self._measure,
            "against": self._reference.trial,
            "reference": self._reference.config,
            "candidates": candidates,
            "timing": plan.profile.timing,
            "code": self._reference.code,
        }
        call = "ablations.worker:run_session"
        return Job(self.id, call, payload, seconds=self._setting.limit) if candidates else None

    def keep(self, outcome: Outcome, earlier: list[Attempt], holds: Holds) -> tuple[str, str]:
        taken = outcome.value or {"readings": {}}
        for trial, readings in taken["readings"].items():
            record = self._setting.results.read(trial)
            if record is None or not holds(trial):
                continue
            sessions = {**record.env.get("sessions", {}), taken["session"]: taken["env"]}
            record.env["sessions"] = sessions
            record.readings += [Reading(**reading) for reading in readings]
            if self._measure not in record.measures:
                record.measures.append(self._measure)
            self._setting.results.write(record)
        return "ok" if outcome.status == "done" else outcome.status, outcome.reason or ""


def sessions(
    lacks: Mapping[str, Iterable[tuple[str, str]]], setting: Setting
) -> list[SessionPiece]:
    """One timing session for each reference: the trials that lack times beside it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial, pairs in lacks.items():
        for pair in pairs:
            groups.setdefault(pair, []).append(trial)
    return [SessionPiece(*pair, trials, setting) for pair, trials in groups.items()]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Which file this is: one that is written anew has another stamp."""
    with contextlib.suppress(FileNotFoundError):
        found = path.stat()
        return found.st_ino, found.st_mtime_ns
    return None


def _attempts_of(record: Head | None) -> list[Attempt]:
    """All attempts at a trial that failed, by its record."""
    if record is None:
        return []
    reason = (record.reason or "").partition("\n")[0]
    last = {"status": record.status, "reason": reason, "seconds": record.env.get("seconds", 0.0)}
    return [*record.env.get("earlier", []), last]


def _headline(record: Record) -> str:
    if record.reason:
        return record.reason.splitlines()[0]
    losses = [r for r in record.readings if (r.metric, r.split) == ("loss", "valid")]
    return f"valid loss {losses[-1].value:.3f}" if losses and losses[-1].value is not None else ""


def code_version() -> dict[str, Any]:
    """The commit that runs, and whether files differ from it; null outside a checkout."""
    if not _VERSION:
        commit, changed = (
            _git(*words) for words in (("rev-parse", "HEAD"), ("status", "-s", "-uno"))
        )
        _VERSION.update(commit=commit, dirty=None if commit is None else bool(changed))
    return dict(_VERSION)


_VERSION: dict[str, Any] = {}


def _git(*words: str) -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["git", "-C", str(FOLDER), *words],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
        return done.stdout.strip()
    return None
