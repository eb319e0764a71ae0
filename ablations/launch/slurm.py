"""Jobs on a Slurm cluster, through submitit: waiting jobs are submitted as one job array.

The disk is shared, so no file travels. The folder holds submitit's files in one subfolder a
submission, and up to three small files a job, named by a hash of its id: `.json` says how it was
submitted, `.lines` what it reports and how it ended, `.cancelled` that its driver cancelled it.

When a driver is killed its jobs go on, and the same command collects them. Leaving the launcher's
context cancels them. Slurm restarts a job that is preempted, loses its node or comes near its time
limit, and the job resumes from its checkpoint: that is no outcome.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import json
import math
import os
import secrets
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ablations.config import located, read_yaml
from ablations.launch import Event, Job, Launcher, Outcome, Progress
from ablations.launch.local import LocalLauncher
from ablations.signals import defer_signals
from ablations.store.files import read_file, write_atomic
from model.config import Checked, ConfigError, ranged, validate

_LARGEST = 1_000  # jobs of one array: most clusters take no more (MaxArraySize)
_RESTARTS = 10_000  # time limits that one job may use up, one after the other
_START = 60.0  # seconds that a job may need until its function is called
_ANSWER = 30.0  # seconds until Slurm counts as silent
_LOOKS = 15  # polls of the files for each question to Slurm, which all users share
_LAGS = 5  # polls that the disk may lag behind what Slurm says
_PATIENCE = 120.0  # seconds until a cancelled job is no longer waited for
_TAIL = 2_000  # characters of a log
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY",
    "PREEMPTED", "REVOKED", "TIMEOUT", "GONE",
}  # fmt: skip
_LOST = ("BOOT_FAIL", "NODE_FAIL", "PREEMPTED")  # its machine was, through no fault of the job
_STATUS = {"TIMEOUT": "timeout", "DEADLINE": "timeout", "OUT_OF_MEMORY": "oom", "FAILED": "error"}
_NEAR_THE_LIMIT = signal.SIGUSR2
_TOO_LONG = "longer than the cluster's time limit: give the Slurm profile more minutes"
_OURS = ("array", "error", "job-name", "open-mode", "output", "requeue", "signal", "wrap")


@dataclass(frozen=True, kw_only=True)
class SlurmProfile(Checked):
    """Options of every job on a cluster; the cluster decides those that are null. For example:

    partition: gpu
    minutes: 240
    gigabytes: 16
    setup: [module load cuda]
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    minutes: int = ranged(240, least=1)  # the time limit; near it a job queues again
    warning: int = ranged(120, least=1)  # seconds before the time limit at which it does so
    grace: float = ranged(25.0, least=0)  # seconds from SIGTERM to SIGKILL, below KillWait
    cpus: int = ranged(1, least=1)  # least CPUs of a job; it gets one for each thread
    gigabytes: float | None = None  # least memory of a job; the cluster may kill larger jobs
    device: str | None = None  # device of jobs, such as cuda or cpu; --device overrides it
    gpu: str = "gpu"  # the cluster's name of an accelerator, such as gpu:a100
    shards: int = ranged(0, least=0)  # of an accelerator (gres/shard); 0: not divided
    parallel: int = ranged(64, least=1)  # jobs at once, unless --jobs says it
    setup: list[str] = field(default_factory=list)  # shell lines before each job
    extra: dict[str, Any] = field(default_factory=dict)  # other options of sbatch; true for a flag

    def problems(self) -> list[str]:
        problems = super().problems()
        if 60 * self.minutes <= self.warning and not problems:
            problems.append(
                f"warning={self.warning}: must be below the {60 * self.minutes} seconds of a job"
            )
        problems += [
            f"extra.{name}: the launcher sets it itself; leave it out"
            for name in self.extra
            if name.replace("_", "-") in _OURS
        ]
        return problems

    def options(self, job: Job) -> dict[str, Any]:
        """The needs of a job as submitit's parameters; jobs with equal needs share an array.

        The job's program replaces the batch shell: srun or a shell between it and Slurm would end
        at the first of Slurm's signals.
        """
        minutes, memory = self.minutes, None
        if job.seconds is not None:  # shorter jobs start sooner
            needed = job.seconds + self.grace + self.warning + _START
            minutes = min(minutes, math.ceil(needed / 60))
        if self.gigabytes is not None:
            memory = f"{1024 * math.ceil(max(self.gigabytes, job.memory / 2**30))}MB"
        gres = f"{self.gpu}:{math.ceil(job.accelerators)}" if job.accelerators else None
        if 0 < job.accelerators < 1 and self.shards:
            gres = f"shard:{math.ceil(job.accelerators * self.shards)}"
        extra = {key: value for key, value in self.extra.items() if value is not None}
        return {
            **{name: getattr(self, name) for name in ("partition", "account", "qos", "constraint")},
            **{"time": minutes, "mem": memory, "gres": gres, "exclusive": job.alone or None},
            "cpus_per_task": max(self.cpus, job.threads),
            "setup": list(self.setup),
            "use_srun": False,
            "additional_parameters": {"signal": f"B:USR2@{self.warning}", "requeue": True, **extra},
        }


def read_slurm_profile(file: str | None) -> SlurmProfile:
    """The profile in a file; without a file, the cluster's own defaults."""
    if file is None:
        return SlurmProfile()
    source = read_yaml(Path(file))
    try:
        profile: SlurmProfile = validate(SlurmProfile, source.values, "")
    except ConfigError as error:
        raise located(error, [("", source)]) from None
    return profile


class SlurmLauncher(Launcher):
    """Up to `capacity` jobs at once on a cluster, by default as many as its profile says.

    `poll` is how many seconds lie between two looks at the files; Slurm is asked more rarely.
    """

    def __init__(
        self, folder: Path, profile: SlurmProfile, capacity: int | None = None, poll: float = 2.0
    ) -> None:
        super().__init__(profile.parallel if capacity is None else capacity)
        self._submitit = _load_submitit()
        self._folder = _private(folder)
        self._profile, self._poll = profile, poll
        self._running: dict[str, Submitted] = {}
        self._done: list[Submitted] = []  # the reader has their outcome
        self._look_at = self._submit_at = 0.0  # not before
        self._give_up_at = math.inf
        self._has_submitted = False

    def _stop(self) -> None:
        for one in self._running.values():
            one.cancel()
        self._look_at, self._give_up_at = 0.0, time.monotonic() + _PATIENCE

    def _fill(self) -> None:
        """Take over jobs of an earlier driver; submit others, those of equal needs as an array."""
        for ended in [one for one in self._done if one.outcome not in self._ready]:
            ended.forget()  # the reader came back for more, so it has stored the outcome
            self._done.remove(ended)
        while self._waiting and time.monotonic() >= self._submit_at:
            room = self.capacity - len(self._running) if self._running else _LARGEST
            with defer_signals():  # a submission must be written down
                waiting = self._waiting.values()
                if left := [one for job in waiting if (one := Submitted.left(self._folder, job))]:
                    self._attach(left)
                elif room >= max(1, self.capacity // 4):
                    options = self._profile.options(next(iter(waiting)))
                    equal = [job for job in waiting if self._profile.options(job) == options]
                    self._submit(equal[:room], options)
                else:
                    return

    def _attach(self, left: Sequence[Submitted]) -> None:
        """Take over what an earlier driver submitted, if it does the same and can still end."""
        if (states := _states()) is None:
            self._submit_at = time.monotonic() + _LOOKS * self._poll
            return
        for one in left:
            events = one.news()
            is_alive = states.get(str(one.number), "GONE") not in _ENDED
            if one.is_wanted and (is_alive or one.outcome):
                self._running[one.job.id] = one
                del self._waiting[one.job.id]
                self._ready += events
            else:  # without a number, its driver died before it knew that
                _ask("scancel", one.number or f"--name={one.name}")
                one.forget()

    def _submit(self, jobs: Sequence[Job], options: dict[str, Any]) -> None:
        """Submit them as one array."""
        name = f"ablations-{secrets.token_hex(4)}"
        submitted = [Submitted(self._folder, job, name) for job in jobs]
        utils = self._submitit.core.utils
        try:
            for one in submitted:
                one.note()
            numbers = self._sbatch(submitted, options)
        except BaseException as error:
            _ask("scancel", f"--name={name}")  # Slurm may have taken it all the same
            for one in submitted:
                one.forget()
            if not isinstance(error, utils.FailedJobError | utils.FailedSubmissionError):
                raise
            if not self._has_submitted:
                words = " ".join(str(error).split()) or "sbatch gave no reason"
                raise ConfigError([f"{words}; fix the Slurm profile"]) from None
            self._submit_at = time.monotonic() + _LOOKS * self._poll  # the queue may be full
            return
        self._has_submitted = True
        for one, one.number in zip(submitted, numbers, strict=True):
            one.note()
            self._running[one.job.id] = one
            del self._waiting[one.job.id]
        self._look_at = time.monotonic() + _LOOKS * self._poll

    def _sbatch(self, jobs: Sequence[Submitted], options: dict[str, Any]) -> list[str]:
        """Submit them; the number that Slurm gives each."""
        python = f"exec {shlex.quote(sys.executable)}"
        executor = self._submitit.SlurmExecutor(jobs[0].subfolder, _RESTARTS, python=python)
        limits = {"job_name": jobs[0].name, "array_parallelism": self.capacity}
        executor.update_parameters(**options, **limits)
        grace = self._profile.grace
        calls = [OnCluster(json.dumps(asdict(one.job)), str(one.base), grace) for one in jobs]
        kept = {n: v for n, v in os.environ.items() if n.startswith(("SLURM_CONF", "SBATCH_"))}
        kept["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))
        with (
            self._submitit.helpers.clean_env(),  # the driver may be a job itself
            self._submitit.core.utils.environment_variables(**kept),
            contextlib.redirect_stderr(io.StringIO()),  # an error says the same
        ):
            return [job.job_id for job in executor.submit_array(calls)]

    def _wait(self) -> None:
        """Read what jobs have written, and now and then what Slurm says."""
        if self._running and time.monotonic() >= self._look_at:
            self._look()
        for one in [*self._running.values()]:
            with defer_signals():  # an outcome that was read must not be lost
                self._ready += one.news()
                one.end(_LAGS * self._poll, is_given_up=time.monotonic() >= self._give_up_at)
                if one.outcome is None:
                    continue
                del self._running[one.job.id]
                if one.state in _LOST and not one.is_cancelled and one.outcome.status != "done":
                    one.forget()
                    self._lose(one.job, str(one.outcome.reason))
                else:
                    self._done.append(one)
                    self._ready.append(one.outcome)
        if not self._ready:
            time.sleep(self._poll)

    def _look(self) -> None:
        """Ask Slurm how the jobs stand; cancel those that shall stop, until they have."""
        if cancelled := [str(one.number) for one in self._running.values() if one.is_cancelled]:
            _ask("scancel", *cancelled)
        self._look_at = time.monotonic() + (1 if cancelled else _LOOKS) * self._poll
        if (states := _states()) is not None:
            for one in self._running.values():
                one.see(states.get(str(one.number), "GONE"))


class Submitted:
    """A job in the queue, as its driver sees it; its files say the same to a later driver."""

    def __init__(self, folder: Path, job: Job, name: str, number: str | None = None) -> None:
        self.job, self.name, self.number = job, name, number
        self.base = folder / hashlib.sha256(job.id.encode()).hexdigest()[:32]
        self.subfolder = folder / name
        plain = json.dumps([job.call, job.payload], sort_keys=True)
        self.work = hashlib.sha256(plain.encode()).hexdigest()  # equal for jobs that do the same
        self.is_wanted, self.is_cancelled = True, False
        self.state: str | None = None  # in Slurm's words
        self.outcome: Outcome | None = None
        self._ended = math.inf  # when Slurm first said so
        self._began: float | None = None
        self._read = 0  # bytes

    @classmethod
    def left(cls, folder: Path, job: Job) -> Submitted | None:
        """The job of this id that an earlier driver submitted; wanted if it is the same work."""
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            held = json.loads(read_file(cls(folder, job, "").file("json")))
            one = cls(folder, job, held["name"], held["number"])
            is_same = held["work"] == one.work and not one.file("cancelled").exists()
            one.is_wanted = is_same and one.number is not None
            return one
        return None

    def note(self) -> None:
        """Write down how it is submitted: before, and again once it has a number."""
        held = {"name": self.name, "number": self.number, "work": self.work}
        write_atomic(self.file("json"), json.dumps(held))

    def file(self, kind: str) -> Path:
        return self.base.with_suffix(f".{kind}")

    def cancel(self) -> None:
        """Let the job know that its own driver tells it to stop."""
        self.is_cancelled = True
        with contextlib.suppress(OSError):  # then only unfinished work is lost
            self.file("cancelled").touch()

    def forget(self) -> None:
        """Delete its files; the logs go with the last job of a submission."""
        for kind in ("json", "lines", "cancelled"):
            self.file(kind).unlink(missing_ok=True)
        (self.subfolder / f"{self.number}_submitted.pkl").unlink(missing_ok=True)
        if not any(self.subfolder.glob("*_submitted.pkl")):
            for _ in range(2):  # a job that ends may write into it just now
                shutil.rmtree(self.subfolder, ignore_errors=True)

    def see(self, state: str) -> None:
        """Take note of what Slurm says."""
        self.state = state
        self._ended = min(self._ended, time.monotonic()) if state in _ENDED else math.inf

    def news(self) -> list[Event]:
        """Its reports since the last call; sets `outcome` when that arrives."""
        with contextlib.suppress(OSError):  # makes a network disk show new files
            os.listdir(self.base.parent)
        try:
            written = self.file("lines").read_bytes()[self._read :]
        except FileNotFoundError:
            return []
        self._began = self._began or time.monotonic()
        whole = written[: written.rfind(b"\n") + 1]
        self._read += len(whole)
        events: list[Event] = []
        for line in whole.splitlines():
            with contextlib.suppress(ValueError, TypeError):  # torn when its writer was killed
                said = json.loads(line)
                if "status" in said:
                    self.outcome = Outcome(**said)
                else:
                    events.append(Progress(self.job.id, **said))
        return events

    def end(self, lag: float, is_given_up: bool) -> None:
        """Take note of an end that Slurm reports, or that its driver has decided on."""
        if self.outcome is None and time.monotonic() - self._ended >= lag:
            self.outcome = self._without_result()
        if self.is_cancelled and self.outcome:
            self.outcome = replace(self.outcome, status="killed", reason="cancelled")
        elif self.is_cancelled and is_given_up:
            silent = "cancelled; the cluster does not say that it has ended"
            self.outcome = Outcome(self.job.id, "killed", reason=silent)

    def _without_result(self) -> Outcome:
        """The outcome of a job that ended before it could write one."""
        assert self.state is not None
        logs = [self.subfolder / f"{self.number}_0_log.{end}" for end in ("out", "err")]
        written = [log.read_text("utf-8", "replace")[-_TAIL:] for log in logs if log.exists()]
        return Outcome(
            self.job.id,
            _STATUS.get(self.state, "killed"),
            reason=f"ended without a result ({self.state.lower().replace('_', ' ')})",
            detail="\n".join(filter(None, written)) or None,
            seconds=0.0 if self._began is None else time.monotonic() - self._began,
            began=self._began is not None,
        )


@dataclass(frozen=True)
class OnCluster:
    """One job as the cluster runs it, by a local launcher there; submitit keeps it as a pickle.

    Slurm sends SIGTERM before it takes a machine away, and starts the job again by itself. Near the
    time limit it sends SIGUSR2; then the job asks to be started again. Either way it writes no
    outcome, and resumes from its checkpoint.
    """

    job: str  # as JSON
    base: str  # path of its files, without their endings
    grace: float  # seconds from being told to stop until it is killed

    def __call__(self) -> None:
        job = Job(**json.loads(self.job))
        requeue: Any = signal.getsignal(_NEAR_THE_LIMIT)  # submitit's
        came: list[int] = []
        for each in (signal.SIGTERM, _NEAR_THE_LIMIT):
            signal.signal(each, lambda number, _frame: came.append(number))
        if self._is_cancelled():  # before this process could hear it
            came.append(signal.SIGTERM)
        with open(f"{self.base}.lines", "ab", buffering=0) as lines:

            def report(event: Progress) -> None:
                line = json.dumps({"fraction": event.fraction, "note": event.note}) + "\n"
                with contextlib.suppress(OSError):  # the job itself reports a full disk
                    lines.write(line.encode())

            lines.write(b"\n")  # it has begun; the line before may be torn
            with LocalLauncher(1, preload=(), grace=self.grace) as launcher:
                outcome = launcher.run(job, report, lambda: bool(came))
            # Slurm signals all processes of a job: the worker may have heard before this one.
            is_stopped = came or (outcome.status, outcome.reason) == ("killed", "SIGTERM")
            if is_stopped and outcome.value is None and not self._is_cancelled():
                if _NEAR_THE_LIMIT not in came:
                    raise SystemExit("Stopped: it resumes from its checkpoint.")
                kept = [file for name, file in job.payload.items() if name.startswith("unfinished")]
                if any(Path(file).exists() for file in kept):
                    requeue(_NEAR_THE_LIMIT, None)  # and does not return
                outcome = Outcome(job.id, "timeout", reason=_TOO_LONG)  # as it would be next time
            lines.write(json.dumps(asdict(outcome)).encode() + b"\n")

    def checkpoint(self) -> Any:
        """What submitit starts again: the same call, since the job has its own checkpoint."""
        return _load_submitit().core.utils.DelayedSubmission(self)

    def _is_cancelled(self) -> bool:
        return Path(f"{self.base}.cancelled").exists()


def _private(folder: Path) -> Path:
    """The folder, made if need be, in which nobody else can write what jobs execute."""
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:  # as a link has it, too
        raise ConfigError(
            [f"{folder}: others may write there what jobs execute; move it away and run again"]
        )
    return folder


def _load_submitit() -> Any:
    missing = [word for word in ("sbatch", "srun", "squeue", "scancel") if not shutil.which(word)]
    if missing:
        where = "start this where jobs are submitted, such as on a login node"
        raise ConfigError([f"no Slurm here ({', '.join(missing)} not found): {where}"])
    try:
        return importlib.import_module("submitit")
    except ImportError:
        fix = "pip install -e '.[slurm]'"
        raise ConfigError([f"Slurm needs the package submitit: {fix}"]) from None


def _states() -> dict[str, str] | None:
    """Number → state of each of this user's jobs; None if there is no answer.

    squeue is on every cluster; sacct, which submitit asks, is not.
    """
    words = ["--me", "--noheader", "--array", "--states=all", "--format=%i|%T"]
    if (written := _ask("squeue", *words)) is None:
        return None
    return dict(line.strip().split("|", 1) for line in written.splitlines() if "|" in line)


def _ask(*words: str) -> str | None:
    """The output of a Slurm command; None if it fails."""
    quiet: Any = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    try:
        return subprocess.check_output(words, text=True, timeout=_ANSWER, **quiet)
    except (OSError, subprocess.SubprocessError):
        return None
