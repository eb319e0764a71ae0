"""Jobs on a Ray cluster: one that exists, or one started on this machine.

Each job is a Ray task that asks for what it needs and runs in a process of its own. The machines
share no disk: Ray's runtime environment brings the code, the task brings data and checkpoints, and
what the job writes comes back. A lost worker or machine costs the time since the last checkpoint.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import logging
import math
import os
import platform
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from ablations.launch import Job, Launcher, Outcome, Progress, failure
from ablations.launch.local import LocalLauncher
from ablations.signals import defer_signals
from ablations.store.files import read_file, write_atomic
from ablations.store.stamp import PROJECT, ROOT, sources
from ablations.store.words import first_line
from model.config import ConfigError

_GRACE = 30.0  # seconds that a worker has to say how a stopped job ended
_POLL = 0.2  # seconds between two reads of the mailbox
_KNOCK = 10.0  # seconds until an address counts as silent


class RayLauncher(Launcher):
    """Up to `capacity` jobs at once; by default as many as the cluster has accelerators, or CPUs
    where jobs compute on these (`device`, which is the CPU where there is no accelerator).

    Without `address` and RAY_ADDRESS a cluster is started here. `imports` are modules of the user's
    that travel along, `preload` those that each Ray worker loads once for its jobs. A cluster that
    other machines can reach is refused, unless it is `trusted` or RAY_AUTH_MODE asks for a token.
    """

    def __init__(
        self,
        capacity: int | None = None,
        address: str | None = None,
        imports: Sequence[str] = (),
        trusted: bool = False,
        device: str | None = None,
        preload: Sequence[str] = ("torch", "ablations.preload"),
    ) -> None:
        asks_for_token = os.environ.get("RAY_AUTH_MODE") == "token"  # Ray may set it, too
        self._ray = ray = connect(address or os.environ.get("RAY_ADDRESS"), capacity, imports)
        try:
            if not (trusted or asks_for_token):
                refuse_open_cluster(ray)
            nodes = self._nodes()
            cores, accelerators = (sum(n.get(kind, 0) for n in nodes) for kind in ("CPU", "GPU"))
            self.accelerators = int(accelerators)
            self.device = device or ("cuda" if self.accelerators else "cpu")
            held = cores if self.device == "cpu" else accelerators
            super().__init__(capacity or max(1, int(held)))
            self._preload = tuple(preload)
            here = ray.get_runtime_context().get_node_id()
            beside = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(here, soft=False)
            self._mailbox = ray.remote(num_cpus=0, scheduling_strategy=beside)(Mailbox).remote()
            # Ray does not retry: this class does, with the newest checkpoint.
            self._task = ray.remote(max_retries=0)(run_here)
            # A process keeps the accelerators that it saw first, so each job has a new one.
            self._once = ray.remote(max_retries=0, max_calls=1)(run_here)
        except BaseException:
            ray.shutdown()
            raise
        self._running: dict[str, Attempt] = {}
        self._reads: dict[str, Any] = {}

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self.capacity:
            with defer_signals():
                self._start(self._waiting.pop(next(iter(self._waiting))))

    def _stop(self) -> None:
        for attempt in self._running.values():
            if not attempt.is_stopping:
                attempt.is_stopping, attempt.deadline = True, time.monotonic() + _GRACE
                self._mailbox.stop.remote(attempt.id)

    def _let_go(self) -> None:
        self._ray.shutdown()

    def _nodes(self) -> list[dict[str, float]]:
        """The resources of each machine; machines come and go."""
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _start(self, job: Job) -> None:
        nodes = self._nodes()
        needs = _needs(job, nodes)
        if not any(all(node.get(name, 0) >= needs[name] for name in needs) for node in nodes):
            asked = ", ".join(f"{name} {number:g}" for name, number in needs.items() if number)
            reason = f"no machine of the cluster has what it needs ({asked})"
            self._ready.append(Outcome(job.id, "error", reason=reason, began=False))
            return
        for path in set(job.reads) - self._reads.keys():
            self._reads[path] = self._ray.put(read_file(path))
        files = {
            name: read_file(job.payload[name])
            for name in job.files
            if Path(job.payload[name]).exists()
        }
        reads = {path: self._reads[path] for path in job.reads}
        attempt = self._running[job.id] = Attempt(job, secrets.token_hex(8))
        task = (self._once if job.accelerators else self._task).options(
            num_cpus=needs["CPU"], num_gpus=needs["GPU"], memory=needs["memory"] or None
        )
        attempt.task = task.remote(self._mailbox, attempt.id, job, files, reads, self._preload)

    def _wait(self) -> None:
        """Sleep until a job ends, or for a moment; take note of what was reported."""
        tasks = {attempt.task: attempt for attempt in self._running.values()}
        ended, _ = self._ray.wait([*tasks], num_returns=1, timeout=_POLL)
        with defer_signals():
            # A report is in the mailbox before its job goes on, so before the job has ended.
            attempts = {attempt.id: attempt.job for attempt in self._running.values()}
            for attempt_id, fraction, note, files in self._ray.get(self._mailbox.take.remote()):
                if job := attempts.get(attempt_id):
                    self._ready.append(Progress(job.id, fraction, note))
                    with contextlib.suppress(OSError):  # without a checkpoint only time is lost
                        _keep(job, files)
            for task in ended:
                del self._running[tasks[task].job.id]
                self._end(tasks[task])
        for attempt in self._running.values():
            if time.monotonic() >= attempt.deadline:  # it was told to stop and has not
                attempt.deadline = math.inf
                self._ray.cancel(attempt.task, force=True)

    def _end(self, attempt: Attempt) -> None:
        job, errors = attempt.job, self._ray.exceptions
        try:
            ended = self._ray.get(attempt.task)
            outcome = Outcome(**ended["outcome"])
            if outcome.status == "storage":  # on that machine; others may have space
                reason = f"on {ended['node']}: {outcome.reason}"
                outcome = replace(outcome, status="error", reason=reason, began=False)
            _keep(job, ended["files"])
        except OSError as error:
            outcome = failure(job.id, error)
        except errors.OutOfMemoryError as error:
            outcome = Outcome(job.id, "oom", reason=first_line(error))
        except (
            errors.RayTaskError,
            errors.RuntimeEnvSetupError,
            errors.TaskUnschedulableError,
        ) as error:  # our own code on the other machine, not the job's
            why = first_line(error), str(error)
            outcome = Outcome(job.id, "error", None, *why, began=False)
        except errors.RayError as error:  # the worker or its machine has gone
            if not attempt.is_stopping:
                self._lose(job, first_line(error))
                return
            outcome = Outcome(job.id, "killed", reason="cancelled")
        self._ready.append(outcome)


@dataclass
class Attempt:
    """One try of a job on some worker."""

    job: Job
    id: str
    task: Any = None
    is_stopping: bool = False
    deadline: float = math.inf


def _needs(job: Job, nodes: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The resources of a job; one that runs alone takes all CPUs of a machine.

    The memory is an estimate, so it asks for no more than some machine has.
    """
    able = [node for node in nodes if node.get("GPU", 0.0) >= job.accelerators]
    cores, memory = (max((n.get(kind, 0) for n in able), default=0) for kind in ("CPU", "memory"))
    cpus = max(job.threads, cores if job.alone else 0)
    return {"CPU": cpus, "GPU": job.accelerators, "memory": min(job.memory, int(memory))}


def _keep(job: Job, files: Mapping[str, bytes]) -> None:
    """Write a job's files to their paths on this machine."""
    for name in set(job.files) & files.keys():
        write_atomic(Path(job.payload[name]), files[name])


# On the cluster.


class Mailbox:
    """An actor beside the driver: what running jobs report, and which of them shall stop."""

    def __init__(self) -> None:
        self._mail: list[Any] = []
        self._stopping: set[str] = set()

    def put(self, *mail: Any) -> None:
        self._mail.append(mail)

    def take(self) -> list[Any]:
        mail, self._mail = self._mail, []
        return mail

    def stop(self, attempt: str) -> None:
        self._stopping.add(attempt)

    def is_stopping(self, attempt: str) -> bool:
        return attempt in self._stopping


def run_here(
    mailbox: Any,
    attempt: str,
    job: Job,
    files: Mapping[str, bytes],
    reads: Mapping[str, Any],
    preload: tuple[str, ...],
) -> dict[str, Any]:
    """Run a job in a process of this machine; how it ended, and the files that it wrote.

    The job may crash, run out of time or leave children behind; this Ray worker survives that.
    """
    import ray

    for path, reference in reads.items():
        from ablations.tasks.data.files import brought_to  # it loads torch, for such jobs alone

        place, data = brought_to(path), ray.get(reference)
        if place is not None and not (place.exists() and place.read_bytes() == data):
            write_atomic(place, data)
    with tempfile.TemporaryDirectory(prefix="job-", dir=Path.cwd()) as folder:
        paths = {name: Path(folder, name) for name in job.files}
        for name, data in files.items():
            paths[name].write_bytes(data)
        known = {name: _version(paths[name]) for name in files}

        def written() -> dict[str, bytes]:
            """Files that are new or have changed since the last call."""
            found = {}
            for name, path in paths.items():
                with contextlib.suppress(FileNotFoundError):
                    if (version := _version(path)) != known.get(name):
                        found[name], known[name] = path.read_bytes(), version
            return found

        def report(event: Progress) -> None:
            ray.get(mailbox.put.remote(attempt, event.fraction, event.note, written()))

        def is_stopping() -> bool:
            return bool(ray.get(mailbox.is_stopping.remote(attempt)))

        payload = {**job.payload, **{name: str(path) for name, path in paths.items()}}
        outcome = _local(preload).run(replace(job, payload=payload), report, is_stopping)
        return {"outcome": vars(outcome), "files": written(), "node": platform.node()}


@cache
def _local(preload: tuple[str, ...]) -> LocalLauncher:
    """The launcher of this Ray worker, whose server has loaded these modules."""
    # Ray ends its workers before Python removes the folder of the server's socket.
    session = [each for each in Path.cwd().parents if each.name.startswith("session_")]
    tempfile.tempdir = str(session[0]) if session else None
    return LocalLauncher(1, preload)


def _version(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns


# Finding a cluster.


def connect(address: str | None, capacity: int | None, imports: Sequence[str]) -> Any:
    """Ray, joined to a cluster or to one that is started here, with our code for its workers."""
    if address is None or is_loopback(address.rpartition(":")[0]):
        # Before it is loaded: else it replaces 127.0.0.1 by this machine's outer address, opens its
        # own cluster to others and does not find one that is on loopback.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # no warning of the future
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        fix = "pip install -e '.[ray]'"
        raise ConfigError([f"--on ray needs Ray, which is not installed: {fix}"]) from None
    if address is None:
        where: dict[str, Any] = {"address": "local", "num_cpus": capacity}
        where |= {"_node_ip_address": "127.0.0.1", "include_dashboard": False}
    else:
        _knock(address)
        where = {"address": address}
    before = signal.getsignal(signal.SIGTERM)  # Ray replaces it
    with tempfile.TemporaryDirectory(prefix="ablations-") as folder:
        _pack(Path(folder), imports)
        env = {"PYTHONSAFEPATH": "1"}  # Ray's own folder may hold another `ablations`
        env |= {"ABLATIONS_TASKS": "tasks.json", "ABLATIONS_FILES": "files"}
        where["runtime_env"] = {"working_dir": folder, "env_vars": env}
        try:
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise _unanswered(address or "a cluster on this machine", error) from None
        finally:
            signal.signal(signal.SIGTERM, before)
    return ray


def _pack(folder: Path, imports: Iterable[str]) -> None:
    """Copy what a worker needs: our code, the user's modules and the names of the tasks."""
    from ablations.tasks.task import announced

    ours = {
        path.relative_to(ROOT).as_posix(): path
        for package in PROJECT
        for path in (ROOT / package).rglob("*")
        if path.suffix in (".py", ".yaml") and path.is_file()
    }
    for place, path in {**ours, **sources(imports)}.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / place)
    (folder / "tasks.json").write_text(json.dumps(announced()))


def _knock(address: str) -> None:
    """ConfigError at once where nothing listens: Ray itself would try for ten minutes."""
    host, _, port = address.rpartition(":")
    if not port.isdecimal() or "/" in host:  # Ray has other words for an address, such as auto
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _KNOCK).close()
    except (OSError, OverflowError) as error:
        raise _unanswered(address, error) from None


def _unanswered(where: str, error: Exception) -> ConfigError:
    return ConfigError([f"--on ray: {where} does not answer ({first_line(error)})"])


def refuse_open_cluster(ray: Any) -> None:
    """ConfigError where other machines can reach the cluster: it runs whatever it is sent."""
    nodes = [node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]]
    if outside := sorted({address for address in nodes if not is_loopback(address)}):
        fix = "start it with RAY_AUTH_MODE=token, and set that here, too; or --trust-cluster"
        problem = f"other machines can reach the cluster ({outside[0]}), and it runs what they send"
        raise ConfigError([f"--on ray: {problem}: {fix}, where its network is closed"])


def is_loopback(address: str) -> bool:
    """Whether this names the machine as only its own processes do."""
    try:
        return ipaddress.ip_address(address.strip("[]")).is_loopback
    except ValueError:  # a name
        return address == "localhost"
