"""Training jobs, the passes they belong to, and what all jobs of a run share.

A job is made after its trials are leased. It compares the folder with the plan again, because
another run may have done some of the work.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from ablations.config import FOLDER
from ablations.estimate import PROCESS, memory_of
from ablations.expand import Trial
from ablations.facts import model_facts
from ablations.launch import Job, Outcome
from ablations.leases import HOST
from ablations.missing import Missing, missing, missing_sources
from ablations.plan import Plan
from ablations.store.record import TRAINED, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError

TIMING = f"timing:{HOST}"  # the lease of the whole machine
RETRAINING, MEASURING = "retraining", "measuring"  # of a trial that has a good record
NOTHING_LEFT = "nothing left to do"  # another run has done it
Attempt = dict[str, Any]
Holds = Callable[[str], bool]


@dataclass(frozen=True)
class RunConfig:
    """The settings that all jobs of a run share."""

    plan: Plan
    results: Results
    device: str
    imports: Sequence[str] = ()
    """Modules with components of the user's own."""
    rerun: str | None = None
    """`stale` or `failed`: run these again."""
    limit: float | None = None
    """Seconds that a trial may take."""
    accelerators: float = 0.0
    """Accelerators for each device of a job."""
    workers: int = 1
    """Jobs side by side on one device."""
    devices: int = 1
    """How many train one trial."""
    pack: int = 1
    """Seeds in a pass; they are trained as one model where they can be."""
    call: str = "ablations.worker:run_trials"
    """The function that a worker calls with trials."""
    poll: float = 1.0
    """Seconds between two looks at the work of other runs."""
    say: Callable[[str], None] = print

    def share(self, devices: int) -> float:
        """Accelerators for a job on so many devices; jobs share only single devices."""
        return devices * self.accelerators / (self.workers if devices == 1 else 1)

    @property
    def payload(self) -> dict[str, Any]:
        """The part of the payload that all jobs have."""
        return {"device": self.device, "imports": [*self.imports], "env": {**code_version()}}


class Ended(NamedTuple):
    """How a trial or a benchmark ended, for the display."""

    id: str
    title: str
    status: str
    seconds: float = 0.0
    note: str = ""


class TrainingJob:
    """Trains and evaluates one trial, or several together that differ only in their seeds.

    Only a single trial has a checkpoint. Several begin again if they are interrupted, and run one
    by one if they fail.
    """

    def __init__(self, trials: Sequence[Trial], config: RunConfig) -> None:
        first = trials[0]
        self.id, self.trained = first.id, first.trained
        self.settings = str(first.sections)
        """Equal for jobs that differ only in their seeds."""
        self.title = first.title + (f" and {len(trials) - 1} more" if len(trials) > 1 else "")
        self.trials, self.leases = list(trials), tuple(trial.id for trial in trials)
        self._config = config
        self._files = {name: self._file(name) for name in self.leases}
        self._sent: dict[str, dict[str, Any]] = {}

    def job(self) -> Job | None:
        """The job for what is left to do; None if nothing is."""
        config = self._config
        asked = {trial.id: self._asked(trial) for trial in self.trials}
        self._sent = {name: each for name, each in asked.items() if each is not None}
        todo = [trial for trial in self.trials if trial.id in self._sent]
        if not todo:
            return None
        is_trained = self.trained and any(each["record"] is None for each in self._sent.values())
        devices = config.devices if is_trained else 1
        files = {}
        for name in self._sent:
            files[f"weights {name}"] = str(config.results.weights(name))
            files[f"unfinished {name}"] = str(config.results.unfinished(name))
        memory = sum(memory_of(trial, config.device, devices) for trial in todo)
        return Job(
            self.id,
            config.call,
            {**config.payload, "devices": devices, "trials": [*self._sent.values()], **files},
            threads=devices,
            seconds=None if config.limit is None else config.limit * len(todo),
            accelerators=config.share(devices),
            memory=memory - (len(todo) - 1) * PROCESS,
            files=tuple(files),
            reads=todo[0].files,
        )

    def _asked(self, trial: Trial) -> dict[str, Any] | None:
        """The payload of one trial; None if nothing of it is left to do."""
        config, results = self._config, self._config.results
        # If the file has changed, another run has redone the trial.
        is_same = self._file(trial.id) == self._files[trial.id]
        alone = replace(config.plan, trials={trial.id: trial})
        lacks = missing(alone, results, config.rerun if is_same else None)
        for line in set_aside(lacks, results):
            config.say(line)
        self._files[trial.id] = self._file(trial.id)
        if not lacks.work:
            return None
        record = lacks.measure[0][1] if lacks.measure else None
        sources = trial.sources if record is None else missing_sources(trial, record)
        return {
            "trial": trial.id,
            "config": trial.config,
            "trained": trial.trained,
            "counts": trial.counts,
            "code": trial.code,
            "sources": {name: trial.source_code(name) for name in sources},
            "record": None if record is None else record.to_dict(),
        }

    def save(self, outcome: Outcome, holds: Holds, again: bool = False) -> list[Ended]:
        """Write the record of each trial whose lease still holds; `again`: it will be retried."""
        seconds = outcome.seconds / max(1, len(self._sent))
        ended = []
        for trial in self.trials:
            if trial.id not in self._sent:
                ended.append(Ended(trial.id, trial.title, NOTHING_LEFT))
                continue
            status, note = self._save(trial, replace(outcome, seconds=seconds), holds, again)
            ended.append(Ended(trial.id, trial.title, status, seconds, note))
        return ended

    def _save(self, trial: Trial, outcome: Outcome, holds: Holds, again: bool) -> tuple[str, str]:
        results, name = self._config.results, trial.id
        if not holds(name) or self._file(name) != self._files[name]:
            return "dropped", "another sweep has taken this trial over"
        held = results.read(name)
        if outcome.value is None:
            return self._fail(trial, held, outcome, again)
        try:
            record = Record.from_dict(outcome.value[name])
        except (RecordError, LookupError, TypeError) as error:  # one bad worker ends no run
            failed = replace(outcome, status="error", reason=f"no record: {error}")
            return self._fail(trial, held, failed, again)
        if before := _attempts_of(held):
            record.attempts, record.env["earlier"] = len(before) + 1, before
        is_whole = not missing_sources(trial, record)
        if is_whole and outcome.status == "done":
            record.failures.pop(MEASURING, "")
        results.write(record)
        results.forget_unfinished(name)
        if outcome.status != "done":
            return outcome.status, f"trained, not all measured: {outcome.reason}"
        return record.status if is_whole else "error", _headline(record)

    def _fail(
        self, trial: Trial, held: Record | None, outcome: Outcome, again: bool
    ) -> tuple[str, str]:
        """Store a failure; if the trial has a good record, as a note in that."""
        reason = outcome.reason or outcome.status
        if held is not None and held.status in TRAINED:
            record = held
            what = RETRAINING if self._sent[trial.id]["record"] is None else MEASURING
            record.failures[what] = f"{outcome.status} ({reason})"
            attempt = _attempt(outcome.status, reason, outcome.seconds)
            record.env["earlier"] = [*record.env.get("earlier", []), attempt]
        else:
            before = _attempts_of(held)
            env = {**code_version(), "code": trial.code, "device": self._config.device}
            env |= {"seconds": round(outcome.seconds, 3)}
            env |= {"earlier": before} if before else {}
            env |= {"again": True} if again else {}
            full = f"{reason}\n{outcome.detail}" if outcome.detail else reason
            record = Record(trial.id, outcome.status, trial.config, reason=full, env=env)
            record.trained, record.data = trial.trained, trial.data
            record.attempts = len(before) + 1
        self._config.results.write(record)
        self._files[trial.id] = self._file(trial.id)
        return outcome.status, reason

    def apart(self) -> list[TrainingJob]:
        """Each of its trials alone."""
        return [TrainingJob([trial], self._config) for trial in self.trials]

    def _file(self, trial: str) -> tuple[int, int] | None:
        """The version of the record's file."""
        with contextlib.suppress(FileNotFoundError):
            found = self._config.results.path(trial).stat()
            return found.st_ino, found.st_mtime_ns
        return None


def set_aside(lacks: Missing, results: Results) -> list[str]:
    """Move unusable records out of the way; a line for each."""
    return [
        f"{error}; kept as {results.set_aside(trial).name}"
        for trial, error in lacks.unusable.items()
    ]


def _attempt(status: str, reason: str, seconds: float) -> Attempt:
    return {"status": status, "reason": reason, "seconds": round(seconds, 3)}


def _attempts_of(record: Record | None) -> list[Attempt]:
    """The failed attempts that a record tells of."""
    if record is None or record.status in TRAINED:
        return []
    reason = (record.reason or "").partition("\n")[0]
    seconds = record.env.get("seconds", 0.0)
    return [*record.env.get("earlier", []), _attempt(record.status, reason, seconds)]


def _headline(record: Record) -> str:
    if record.failures:
        return "; ".join(f"{what} failed: {why}" for what, why in record.failures.items())
    if record.reason:
        return record.reason.splitlines()[0]
    losses = [r for r in record.measurements if (r.metric, r.split) == ("loss", "valid")]
    return f"valid loss {losses[-1].value:.3f}" if losses and losses[-1].value is not None else ""


@cache
def code_version() -> Mapping[str, Any]:
    """The commit that runs, and whether files differ from it; null outside a checkout."""
    commit, changed = (_git(*words) for words in (("rev-parse", "HEAD"), ("status", "-s", "-uno")))
    return {"commit": commit, "dirty": None if commit is None else bool(changed)}


def _git(*words: str) -> str | None:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["git", "-C", str(FOLDER), *words]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return done.stdout.strip()
    return None


class Passes:
    """Assigns each seed of trained trials to a pass, from 1; a pass has `pack` seeds."""

    def __init__(self, plan: Plan, pack: int) -> None:
        trained = [trial for trial in plan.trials.values() if trial.trained]
        seeds = list(dict.fromkeys(trial.config["seed"] for trial in trained))
        self.pack, self.count = pack, -(-len(seeds) // pack)
        self._number = {
            seed: 1 + rank * self.count // len(seeds) for rank, seed in enumerate(seeds)
        }

    def of(
        self, trials: Iterable[Trial], tried: set[str], config: RunConfig
    ) -> dict[int, list[TrainingJob]]:
        """Pass → its jobs, in the order of the plan; pass 0 needs no training.

        The seeds of a variant that are to be trained (`tried`) are packed into one job; a trial
        with a checkpoint resumes alone.
        """
        groups: dict[tuple[int, str], list[Trial]] = {}
        for trial in trials:
            number = self._number[trial.config["seed"]] if trial.trained else 0
            is_begun = config.results.unfinished(trial.id).exists()
            is_packed = self.pack > 1 and trial.id in tried and not is_begun
            is_packed = is_packed and can_pack(trial)
            group = str(trial.sections) if is_packed else trial.id
            groups.setdefault((number, group), []).append(trial)
        found: dict[int, list[TrainingJob]] = {}
        for (number, _), some in groups.items():
            found.setdefault(number, []).append(TrainingJob(some, config))
        return found


def can_pack(trial: Trial) -> bool:
    """Whether a trial can be trained as one model with its other seeds."""
    from ablations.train.config import OPTIMIZER

    model, train = trial.config["model"], trial.config["train"]
    if any(share for option, share in model.items() if option.endswith("dropout")):
        return False  # dropout would draw other random numbers
    modules = model_facts(trial.sections["model"], trial.sections["task"]).modules
    packages = {name.split(".")[0] for name in modules}
    packages |= {OPTIMIZER.component(train["optimizer"]["name"]).__module__.split(".")[0]}
    is_ours = packages <= {"torch", "model", "ablations"}  # others may mix replicas
    return trial.trained and not train["compile"] and is_ours
