"""What a sweep has to do, piece by piece: to train and measure a trial or a pack, or to time some.

A piece is asked for its job only once it is leased, and then reads anew what the folder holds:
another sweep may have done it by then.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ablations.launch import Job, Outcome
from ablations.leases import HOST
from ablations.orders import FILES, SessionOrder, TrialOrder
from ablations.plan.estimate import PROCESS, memory_of
from ablations.plan.missing import Missing, Timings, is_beside, missing, owed_measures, untimed
from ablations.plan.source import FOLDER
from ablations.plan.wanted import Plan, Want
from ablations.plan.ways import WayOf, one_at_a_time
from ablations.store.identity import freeze
from ablations.store.record import TRAINED, Reading, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import Stamp

if TYPE_CHECKING:
    from ablations.measure import Place

TIMING = f"timing:{HOST}"  # the lease to have this machine alone
RETRAINING, MEASURING = "retraining", "measuring"  # of a trial that has a good record
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
    accelerators: float = 0.0
    """How many a job needs for each device, where it has them alone."""
    ways: WayOf = one_at_a_time
    """How trials share a device."""
    spared: frozenset[str] = frozenset()
    """Trials that are not made anew, whatever `rerun` says."""
    devices: int = 1
    """How many train one trial."""

    def needs(self, devices: int, workers: int) -> dict[str, Any]:
        """What a job on so many devices asks of its launcher: a core for each, and of accelerators
        what so many workers leave it; where it has several, it has them alone."""
        shared_by = workers if devices == 1 else 1
        return {"threads": devices, "accelerators": devices * self.accelerators / shared_by}

    @property
    def order(self) -> dict[str, Any]:
        """What every order says."""
        return {"device": self.device, "imports": self.imports, "env": {**code_version()}}


class Piece:
    """Something to do, under leases that nobody else may hold meanwhile."""

    id: str
    title: str
    trained: bool
    """Whether it is about a model that is trained."""
    leases: tuple[str, ...]
    settings: str
    """Equal where pieces differ in their seed alone."""

    def job(self) -> Job | None:
        """What is still to do; None if that is nothing."""
        raise NotImplementedError

    def keep(self, outcome: Outcome, holds: Holds, again: bool) -> tuple[str, str]:
        """Write what came of it where the lease holds; how it ended, and a note for people.

        `again` tells that it failed and will be tried again.
        """
        raise NotImplementedError

    @property
    def parts(self) -> Sequence[Piece]:
        """The trials of a pack, to be tried one by one where it fails."""
        return [self]

    def shares(self, outcome: Outcome) -> list[tuple[Piece, Outcome | None]]:
        """What each part has of an outcome, and keeps; None: nothing was left to do for it."""
        return [(self, outcome)]


class TrialPiece(Piece):
    """One trial: trained and measured, or only measured where it is trained already."""

    def __init__(self, want: Want, setting: Setting) -> None:
        self.id, self.title, self.trained = want.trial, want.title, want.trained
        self.leases = (want.trial,)
        self.settings = str(want.frozen)
        self.want, self._setting = want, setting
        self._seen = self._given = self._stamp()
        self._only_measures = False
        self._before: list[Attempt] = []

    def job(self) -> Job | None:
        setting, want, results = self._setting, self.want, self._setting.results
        # What was to be made anew has been, if the file is another one now.
        rerun = setting.rerun if self._stamp() == self._seen else None
        alone = replace(setting.plan, wanted={want.trial: want})
        lacks = missing(alone, results, rerun, setting.spared)
        for line in set_aside(lacks, results):
            setting.say(line)
        self._given = self._stamp()  # a record that was set aside is gone
        if not lacks.train and not lacks.measure:
            return None
        record = lacks.measure[0][1] if lacks.measure else None
        self._only_measures = record is not None
        self._before = _attempts_of(results.read(want.trial)) if lacks.failed else []
        owed = want.measures if record is None else owed_measures(want, record)
        devices = setting.devices if want.trained and record is None else 1
        order = TrialOrder(
            **setting.order,
            trial=want.trial,
            config=want.config,
            trained=want.trained,
            counts=want.counts,
            code=want.code,
            measures={name: want.measure_code(name) for name in owed},
            record=None if record is None else record.to_dict(),
            weights=str(results.weights(want.trial)),
            unfinished=str(results.unfinished(want.trial)),
            devices=devices,
        )
        return Job(
            want.trial,
            setting.call,
            order.payload(),
            seconds=setting.limit,
            **setting.needs(devices, setting.ways(want).workers),
            memory=memory_of(want, setting.device, devices),
            files=FILES,
            reads=want.files,
        )

    def keep(self, outcome: Outcome, holds: Holds, again: bool) -> tuple[str, str]:
        record, outcome = _returned(outcome)
        if not holds(self.id) or self._stamp() != self._given:
            return "dropped", "another sweep has taken this trial over"
        if record is None:
            return self._fail(outcome, again)
        if not self._only_measures and self._before:
            record.attempts, record.env["earlier"] = len(self._before) + 1, self._before
        results = self._setting.results
        results.write(record)
        results.forget_unfinished(record.trial)
        if outcome.status != "done":
            return outcome.status, f"trained, not all measured: {outcome.reason}"
        is_whole = not owed_measures(self.want, record)
        if is_whole and record.failures.pop(MEASURING, ""):
            results.write(record)
        return record.status if is_whole else "error", _headline(record)

    def _fail(self, outcome: Outcome, again: bool) -> tuple[str, str]:
        """Keep a failure; where the trial has a good record, only as a note to that.

        Whatever was trained may go on from its checkpoint.
        """
        results = self._setting.results
        reason = outcome.reason or outcome.status
        held = results.read(self.id)
        if held is not None and held.status in TRAINED:
            record = held
            what = MEASURING if self._only_measures else RETRAINING
            record.failures[what] = f"{outcome.status} ({reason})"
            attempt = _attempt(outcome.status, reason, outcome.seconds)
            record.env["earlier"] = [*record.env.get("earlier", []), attempt]
        else:
            env = {**code_version(), "code": self.want.code, "device": self._setting.device}
            env["seconds"] = round(outcome.seconds, 3)
            full = f"{reason}\n{outcome.detail}" if outcome.detail else reason
            record = Record(self.id, outcome.status, self.want.config, reason=full, env=env)
            record.trained, record.data = self.want.trained, self.want.data
            record.attempts = len(self._before) + 1
            record.env |= {"earlier": self._before} if self._before else {}
            record.env |= {"again": True} if again else {}
        results.write(record)
        self._seen = self._stamp()
        return outcome.status, reason

    def _stamp(self) -> tuple[int, int] | None:
        """Which file the record is: one that is written anew has another stamp."""
        with contextlib.suppress(FileNotFoundError):
            found = self._setting.results.path(self.id).stat()
            return found.st_ino, found.st_mtime_ns
        return None


class PackPiece(Piece):
    """Trials that differ in their seed alone: leased and trained together, kept one by one.

    A pack keeps no checkpoint. One that is cut begins again, and one that fails falls apart: its
    trials then go on alone.
    """

    def __init__(self, trials: Sequence[TrialPiece], setting: Setting) -> None:
        first = trials[0]
        self.id, self.settings = first.id, first.settings  # nobody else runs its first trial
        self.title = f"{first.title} and {len(trials) - 1} more"
        self.trained = True
        self.leases = tuple(piece.id for piece in trials)
        self._trials, self._setting = list(trials), setting
        self._ordered: set[str] = set()  # for which something was left to do

    @property
    def parts(self) -> Sequence[Piece]:
        return self._trials

    def job(self) -> Job | None:
        jobs = [job for piece in self._trials if (job := piece.job()) is not None]
        self._ordered = {job.id for job in jobs}
        if not jobs:
            return None
        # A launcher that carries files looks for their names at the top.
        files = {f"{name} {job.id}": job.payload[name] for job in jobs for name in FILES}
        limit = self._setting.limit
        return Job(
            self.id,
            "ablations.worker:run_pack",
            {"orders": [job.payload for job in jobs], **files},
            seconds=None if limit is None else limit * len(jobs),
            accelerators=max(job.accelerators for job in jobs),
            memory=sum(job.memory for job in jobs) - (len(jobs) - 1) * PROCESS,
            files=tuple(files),
            reads=jobs[0].reads,
        )

    def shares(self, outcome: Outcome) -> list[tuple[Piece, Outcome | None]]:
        """Its record and an equal share of the time for each trial that was ordered."""
        records = outcome.value if isinstance(outcome.value, dict) else {}
        seconds = outcome.seconds / max(1, len(self._ordered))
        return [
            (
                piece,
                replace(outcome, job=piece.id, value=records.get(piece.id, {}), seconds=seconds)
                if piece.id in self._ordered
                else None,
            )
            for piece in self._trials
        ]


def packed(
    trials: Sequence[TrialPiece], untrained: Collection[str], setting: Setting
) -> list[Piece]:
    """The untrained seeds of an arm in packs as large as its way says, each where its first stood.

    A trial that has a checkpoint goes on from it, alone.
    """
    arms: dict[str, list[TrialPiece]] = {}
    for piece in trials:
        is_begun = setting.results.unfinished(piece.id).exists()
        if piece.trained and piece.id in untrained and not is_begun:
            arms.setdefault(piece.settings, []).append(piece)
    packs: dict[str, Piece] = {}  # by each of their trials
    for arm in arms.values():
        for some in _cut(arm, setting.ways(arm[0].want).packed):
            pack = PackPiece(some, setting) if len(some) > 1 else some[0]
            packs.update(dict.fromkeys((piece.id for piece in some), pack))
    pieces = (packs.get(piece.id, piece) for piece in trials)
    return list({piece.id: piece for piece in pieces}.values())


def _cut(arm: Sequence[TrialPiece], most: int) -> list[Sequence[TrialPiece]]:
    """Into as few runs of at most so many as there can be, all about as long."""
    runs = -(-len(arm) // most)
    ends = [len(arm) * number // runs for number in range(runs + 1)]
    return [arm[begin:end] for begin, end in pairwise(ends)]


class SessionPiece(Piece):
    """One timing session: the trials that have no times yet, beside their reference.

    It leases its trials, whose records it writes to, and the machine, which it needs to itself.
    """

    def __init__(
        self, measure: str, reference: str, trials: Iterable[str], setting: Setting
    ) -> None:
        self.id = f"{measure}:{reference}"
        self._measure, self._reference = measure, setting.plan.wanted[reference]
        self.trials, self._setting = tuple(trials), setting
        self.trained = self._reference.trained
        self.title = f"{measure} of {len(self.trials)} beside {self._reference.title}"
        self.leases = (self.id, TIMING, *self.trials)
        self.settings = self.id

    def job(self) -> Job | None:
        plan, results = self._setting.plan, self._setting.results
        lacking = {trial: self._lacking(trial, results.read(trial)) for trial in self.trials}
        candidates = {trial: plan.wanted[trial].config for trial in self.trials if lacking[trial]}
        if not candidates:
            return None
        # A few more than some of them lack: what is timed together can be compared.
        places = {freeze(at): dict(at) for each in lacking.values() for at in each}
        order = SessionOrder(
            **self._setting.order,
            measure=self._measure,
            code=self._code(self._reference),
            against=self._reference.trial,
            reference=self._reference.config,
            candidates=candidates,
            models={
                file: digest
                for trial in (self._reference.trial, *candidates)
                for file, digest in plan.wanted[trial].code.items()
            },
            untrained=[
                trial
                for trial in (self._reference.trial, *candidates)
                if not plan.wanted[trial].trained
            ],
            places=list(places.values()),
            timing=plan.profile.timing,
        )
        call = "ablations.worker:run_session"
        return Job(
            self.id,
            call,
            order.payload(),
            seconds=self._setting.limit,
            accelerators=self._setting.accelerators,
            alone=True,
            reads=self._reference.files,
        )

    def keep(self, outcome: Outcome, holds: Holds, again: bool) -> tuple[str, str]:
        ended = "timed" if outcome.status == "done" else outcome.status, outcome.reason or ""
        for trial in self.trials:
            record = self._setting.results.read(trial)
            if record is None or not self._lacking(trial, record) or not holds(trial):
                continue
            status, reason = outcome.status, outcome.reason or ""
            try:
                if outcome.value is not None:
                    record, status = self._timed(record, outcome.value), "done"
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                status, reason = "error", f"no readings: {error!r}"  # one bad worker ends no sweep
                ended = status, reason
            if status != "done":
                record.failures[self._measure] = f"{status} ({reason})"
            self._setting.results.write(record)
        return ended

    def _lacking(self, trial: str, record: Record | None) -> list[Place]:
        """Where a trial has not been timed beside the reference."""
        pair = self._measure, self._reference.trial
        wanted = self._setting.plan.wanted
        return untimed(wanted[trial], record, wanted).get(pair, [])

    def _timed(self, record: Record, taken: dict[str, Any]) -> Record:
        """A record with the times that a session took of its trial."""
        readings = [Reading(**reading) for reading in taken["readings"][record.trial]]
        for reading in readings:
            own = "" if reading.session is None else f".{reading.session}"  # its process
            reading.session, reading.against = f"{taken['session']}{own}", self._reference.trial
        made_by = self._code(self._setting.plan.wanted[record.trial])
        if record.measures.get(self._measure) == made_by:
            taken_now = {freeze(reading.at) for reading in readings}
            against = self._reference.trial
            # Elsewhere beside the reference as it is now: beside an older one it is out of date.
            is_current = is_beside(record, self._measure, self._reference, against)
            readings += [  # beside other references those stay
                each
                for each in record.readings
                if each.measure == self._measure
                and (each.against != against or (is_current and freeze(each.at) not in taken_now))
            ]
        beside = {"measure": self._measure, "against": self._reference.trial}
        sessions = {**record.env.get("sessions", {}), taken["session"]: taken["env"] | beside}
        timed = replace(record, env={**record.env, "sessions": sessions})
        timed.take(self._measure, made_by, readings)
        return Record.from_dict(timed.to_dict())

    def _code(self, want: Want) -> Stamp:
        return want.measure_code(self._measure)


def set_aside(lacks: Missing, results: Results) -> list[str]:
    """Move unusable records out of the way; what to tell of each."""
    return [
        f"{error}; kept as {results.set_aside(trial).name}"
        for trial, error in lacks.unusable.items()
    ]


def sessions(lacks: Mapping[str, Timings], setting: Setting) -> list[SessionPiece]:
    """One timing session for each reference: the trials that lack times beside it."""
    groups: dict[tuple[str, str], list[str]] = {}
    for trial, pairs in lacks.items():
        for pair in pairs:
            groups.setdefault(pair, []).append(trial)
    return [SessionPiece(*pair, trials, setting) for pair, trials in groups.items()]


def _returned(outcome: Outcome) -> tuple[Record | None, Outcome]:
    """The record in an outcome, if there is a good one; else an outcome that tells of a failure."""
    if outcome.value is None:
        return None, outcome
    try:
        return Record.from_dict(outcome.value), outcome
    except RecordError as error:  # one bad worker must not end the sweep
        return None, replace(outcome, status="error", reason=f"no record: {error}", value=None)


def _attempt(status: str, reason: str, seconds: float) -> Attempt:
    return {"status": status, "reason": reason, "seconds": round(seconds, 3)}


def _attempts_of(record: Record | None) -> list[Attempt]:
    """All attempts at a trial that failed, by its record."""
    if record is None:
        return []
    reason = (record.reason or "").partition("\n")[0]
    seconds = record.env.get("seconds", 0.0)
    return [*record.env.get("earlier", []), _attempt(record.status, reason, seconds)]


def _headline(record: Record) -> str:
    if record.failures:
        return "; ".join(f"{what} failed: {why}" for what, why in record.failures.items())
    if record.reason:
        return record.reason.splitlines()[0]
    losses = [r for r in record.readings if (r.metric, r.split) == ("loss", "valid")]
    return f"valid loss {losses[-1].value:.3f}" if losses and losses[-1].value is not None else ""


@cache
def code_version() -> Mapping[str, Any]:
    """The commit that runs, and whether files differ from it; null outside a checkout."""
    commit, changed = (_git(*words) for words in (("rev-parse", "HEAD"), ("status", "-s", "-uno")))
    return {"commit": commit, "dirty": None if commit is None else bool(changed)}


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
