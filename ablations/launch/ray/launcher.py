"""Jobs on a Ray cluster: one that is there, or one of this machine's own.

Each job is a Ray task that asks for what it needs. Code, data and checkpoints travel with it, and
what it writes comes back: the machines share no disk. A worker or a whole machine that is lost
costs the time since the last checkpoint, and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import secrets
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ablations.launch import Job, Launcher, Outcome, Progress, failure
from ablations.launch.ray import errand as first_steps
from ablations.launch.ray.connect import connect, first_line, load_ray, refuse_strangers
from ablations.signals import undisturbed
from ablations.store.files import read_file, write_atomic
from ablations.store.stamp import PROJECT, ROOT, sources
from ablations.tasks.cache import announced

GRACE = 30.0  # seconds that a worker has to say how a stopped job ended
LOST = 20  # so many lost workers are no accident
LATE = 10.0  # seconds that mail may take after the end of the job that sent it
LOOK = 5.0  # seconds between two looks at the machines


class RayLauncher(Launcher):
    """Up to `capacity` jobs at once on a cluster; by default as many as it has accelerators, or
    CPUs where jobs compute on these (`device`), as they do where it has no other.

    `address` is that of a cluster, as Ray understands it; without one, and without RAY_ADDRESS, a
    cluster is started here. `imports` are modules of the user's own that travel along. A cluster
    that strangers can reach is refused, unless it is `trusted`.
    """

    def __init__(
        self,
        capacity: int | None = None,
        address: str | None = None,
        imports: Sequence[str] = (),
        trusted: bool = False,
        device: str | None = None,
        grace: float = GRACE,
    ) -> None:
        address = address or os.environ.get("RAY_ADDRESS")
        self._ray = load_ray(address)
        self._grace = grace
        self._is_ours = not self._ray.is_initialized()
        if self._is_ours:
            connect(self._ray, address, capacity)
        try:
            if not trusted:
                refuse_strangers(self._ray)
            self._look_at = 0.0
            self._look()
            self.accelerators = int(self._total("GPU"))
            self.device = device or ("cuda" if self.accelerators else "cpu")
            held = self._total("CPU") if self.device == "cpu" else self.accelerators
            super().__init__(capacity or max(1, int(held)))
            self._prepare(imports)
        except BaseException:
            self._disconnect()
            raise
        self._running: dict[str, Attempt] = {}

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.capacity:
            with undisturbed():
                self._start(Attempt(self._waiting.pop(next(iter(self._waiting)))))

    def _stop(self, names: Sequence[str]) -> None:
        for attempt in [self._running[name] for name in names]:
            if not attempt.is_ending:
                attempt.is_ending, attempt.deadline = True, time.monotonic() + self._grace
                self._mailbox.stop.remote(attempt.id)

    def _let_go(self) -> None:
        self._ray.kill(self._mailbox)
        self._disconnect()

    def _total(self, resource: str) -> float:
        return sum(node.get(resource, 0.0) for node in self._nodes)

    def _prepare(self, imports: Sequence[str]) -> None:
        ray = self._ray
        ray.cloudpickle.register_pickle_by_value(first_steps)
        code = packed(imports)
        here = ray.get_runtime_context().get_node_id()
        beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
        options = {"num_cpus": 0, "max_concurrency": 10_000, "scheduling_strategy": beside}
        self._mailbox = ray.remote(**options)(first_steps.Mailbox).remote(code)
        self._news = self._mailbox.take.remote()
        sweep, digest = secrets.token_hex(4), hashlib.sha256(code).hexdigest()
        errand = first_steps.errand_for(sweep, digest, self._mailbox)
        # Lost work is begun again by us, with the newest checkpoint; nobody reads Ray's own notes.
        plain = {"max_retries": 0, "enable_task_events": False}
        self._errand = ray.remote(**plain)(errand)
        # Ray gives each task its own accelerators, but a process keeps those that it saw first.
        self._once = ray.remote(max_calls=1, **plain)(errand)
        self._reads: dict[str, Any] = {}

    def _disconnect(self) -> None:
        if self._is_ours:
            self._ray.shutdown()

    def _start(self, attempt: Attempt) -> None:
        job = attempt.job
        self._look()
        options = self._needs(job)
        if not any(_fits(node, options) for node in self._nodes):
            asked = ", ".join(f"{name} {number:g}" for name, number in options.items())
            reason = f"no machine of the cluster has what it needs ({asked})"
            self._ready.append(Outcome(job.id, "error", reason=reason, began=False))
            return
        errand = {
            "job": vars(job),
            "attempt": attempt.id,
            "files": {name: data for name in job.files if (data := _held(job, name)) is not None},
            "reads": {path: self._sent(path) for path in job.reads},
        }
        task = self._once if "num_gpus" in options else self._errand
        attempt.task = task.options(**options).remote(errand)
        self._running[job.id] = attempt

    def _needs(self, job: Job) -> dict[str, Any]:
        """What a job asks of the cluster; one that is to be alone, all processors of a machine.

        Its memory is an estimate: it asks for no more than some machine has.
        """
        able = [node for node in self._nodes if node.get("GPU", 0.0) >= job.accelerators]
        needs: dict[str, Any] = {"num_cpus": job.threads}
        if job.alone:
            needs["num_cpus"] = max([job.threads, *(node.get("CPU", 0.0) for node in able)])
        if job.accelerators:
            needs["num_gpus"] = job.accelerators
        if job.memory:
            most = max((node.get("memory", 0.0) for node in able), default=0.0)
            needs["memory"] = min(job.memory, int(most))
        return needs

    def _look(self) -> None:
        """Which machines there are: they come and go."""
        if time.monotonic() >= self._look_at:
            self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
            self._look_at = time.monotonic() + LOOK

    def _sent(self, path: str) -> Any:
        """A user's file, put where each machine fetches it once, with its digest."""
        if path not in self._reads:
            data = read_file(path)
            self._reads[path] = hashlib.sha256(data).hexdigest(), self._ray.put(data)
        return self._reads[path]

    def _wait(self) -> None:
        """Sleep until mail comes, a job ends or one that was told to stop has not."""
        now = time.monotonic()
        left = min(attempt.deadline for attempt in self._running.values()) - now
        timeout = None if math.isinf(left) else max(0.0, left)
        going = {each.task: each for each in self._running.values() if each.ended is None}
        ended, _ = self._ray.wait([self._news, *going], num_returns=1, timeout=timeout)
        with undisturbed():
            for reference in ended:
                if reference == self._news:
                    self._read_mail()
                else:
                    self._end(going[reference])
            for attempt in [*self._running.values()]:
                if time.monotonic() >= attempt.deadline:
                    self._force(attempt)

    def _read_mail(self) -> None:
        attempts = {attempt.id: attempt for attempt in self._running.values()}
        for mail in self._ray.get(self._news):
            attempt = attempts.get(mail["attempt"])
            if attempt is None:
                continue
            for each in attempt.in_turn(mail):
                self._ready.append(Progress(attempt.job.id, each["fraction"], each["note"]))
                with contextlib.suppress(OSError):  # a checkpoint that is not kept costs time alone
                    _keep(attempt.job, each["files"])
        self._news = self._mailbox.take.remote()
        for attempt in [*self._running.values()]:
            self._tell(attempt)

    def _end(self, attempt: Attempt) -> None:
        """A task has ended; what it says is told once all of its mail has come."""
        ray = self._ray
        try:
            attempt.ended = ray.get(attempt.task)
            attempt.deadline = time.monotonic() + LATE
        except ray.exceptions.OutOfMemoryError as error:
            self._drop(attempt, Outcome(attempt.job.id, "oom", reason=first_line(error)))
        except (ray.exceptions.RayTaskError, ray.exceptions.TaskUnschedulableError) as error:
            # Our own code on the other machine, not the job's.
            reason = first_line(error)
            told = Outcome(attempt.job.id, "error", None, reason, str(error), began=False)
            self._drop(attempt, told)
        except ray.exceptions.RayError as error:
            self._lose_attempt(attempt, error)
        self._tell(attempt)

    def _tell(self, attempt: Attempt, is_late: bool = False) -> None:
        if attempt.ended is None or (attempt.heard < attempt.ended["sent"] and not is_late):
            return
        outcome = Outcome(**attempt.ended["outcome"])
        if outcome.status == "storage":  # there, which says nothing of other machines
            reason = f"on {attempt.ended['node']}: {outcome.reason}"
            outcome = replace(outcome, status="error", reason=reason, began=False)
        try:
            _keep(attempt.job, attempt.ended["files"])
        except OSError as error:
            outcome = failure(attempt.job.id, error)
        self._drop(attempt, outcome)

    def _lose_attempt(self, attempt: Attempt, error: Exception) -> None:
        """The worker or its machine has gone: the job is begun again, which is no failure of it."""
        if self._ray.wait([self._news], timeout=0)[0]:  # its last checkpoint may be there
            self._read_mail()
        del self._running[attempt.job.id]
        if attempt.is_ending:
            self._ready.append(Outcome(attempt.job.id, "killed", reason="cancelled"))
        elif attempt.lost + 1 >= LOST:
            reason = f"{LOST} workers were lost with it ({first_line(error)})"
            self._ready.append(Outcome(attempt.job.id, "killed", reason=reason))
        else:
            self._start(Attempt(attempt.job, lost=attempt.lost + 1))

    def _force(self, attempt: Attempt) -> None:
        """It was told to stop and has not, or it has ended and its mail is lost."""
        attempt.deadline = math.inf
        if attempt.ended is None:
            self._ray.cancel(attempt.task, force=True)
        else:
            self._tell(attempt, is_late=True)

    def _drop(self, attempt: Attempt, outcome: Outcome) -> None:
        del self._running[attempt.job.id]
        self._ready.append(outcome)


@dataclass
class Attempt:
    """One try of a job on some worker."""

    job: Job
    lost: int = 0
    """Tries before this one whose worker was lost."""
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    task: Any = None
    heard: int = 0
    early: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Mail that came before its turn, by number."""
    ended: dict[str, Any] | None = None
    is_ending: bool = False
    deadline: float = math.inf

    def in_turn(self, mail: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """What can be opened now that this has come: on its way, mail may overtake other mail."""
        self.early[mail["number"]] = mail
        while self.heard in self.early:
            yield self.early.pop(self.heard)
            self.heard += 1


def packed(imports: Iterable[str]) -> bytes:
    """Our code, the user's modules and the names of the tasks as a zip: machines share no disk."""
    held = io.BytesIO()
    ours = {
        path.relative_to(ROOT).as_posix(): path
        for package in PROJECT
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".yaml") and path.is_file()
    }
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for place, path in sorted({**ours, **sources(imports)}.items()):
            file.writestr(zipfile.ZipInfo(place), path.read_bytes(), zipfile.ZIP_DEFLATED)
        file.writestr(zipfile.ZipInfo("tasks.json"), json.dumps(announced()))
    return held.getvalue()


def _fits(node: Mapping[str, float], options: Mapping[str, float]) -> bool:
    names = {"num_cpus": "CPU", "num_gpus": "GPU", "memory": "memory"}
    return all(node.get(names[name], 0) >= number for name, number in options.items())


def _held(job: Job, name: str) -> bytes | None:
    try:
        return read_file(job.payload[name])
    except FileNotFoundError:
        return None


def _keep(job: Job, files: dict[str, bytes]) -> None:
    """Write what came back where the driver wants it."""
    for name in set(job.files) & files.keys():
        write_atomic(Path(job.payload[name]), files[name])
