"""Jobs on this machine: a process for each, forked from a server that has torch loaded.

Each worker leads a session of its own, so that Ctrl-C reaches the driver alone and a time limit
ends the worker with everything it started. A worker dies with its driver, whatever kills it.
Top down: the launcher, a worker as the driver sees it, and the worker itself.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import json
import math
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable, Sequence
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ClassVar

from ablations.launch import Event, Job, Launcher, Outcome, Progress, failure, resolve
from ablations.signals import defer_signals

_PULSE = 0.2  # seconds
_TAIL = 2_000  # characters of a failed job's output that are kept
_SERVER_LOST = 255  # multiprocessing's exit code for a process whose server is gone
_CONTEXT = multiprocessing.get_context("forkserver")


class LocalLauncher(Launcher):
    """Up to `capacity` jobs at once on this machine, started while `events` is being read.

    `preload` names the modules that the server loads once for all; `grace` is how many seconds a
    worker has between SIGTERM and SIGKILL: enough for a training step and a checkpoint. Jobs share
    `devices` accelerators; `settle` names a function that a worker calls with the number of its
    first one, to select it.
    """

    _open: ClassVar[set[LocalLauncher]] = set()

    def __init__(
        self,
        capacity: int = 1,
        preload: Sequence[str] = ("torch", "ablations.worker"),
        grace: float = 10.0,
        devices: int = 1,
        settle: str | None = None,
    ) -> None:
        super().__init__(capacity)
        self._preload, self._grace = [__name__, *preload], grace
        self._devices, self._settle = devices, settle
        self._is_stopping: Callable[[], bool] | None = None
        self._running: dict[str, _Worker] = {}
        self._server_is_ready = False
        self._open.add(self)
        # Without this, multiprocessing would wait at exit for every job that still runs.
        atexit.register(self.close)

    def run(
        self, job: Job, report: Callable[[Progress], None], is_stopping: Callable[[], bool]
    ) -> Outcome:
        """Run one job; cancel it once `is_stopping()`. Ray and Slurm workers call this."""
        self._is_stopping = is_stopping
        self.submit(job)
        for event in self.events():
            if isinstance(event, Outcome):
                outcome = event
            else:
                report(event)
        return outcome

    def _stop(self) -> None:
        for worker in self._running.values():
            worker.end("killed", "cancelled")

    def _let_go(self) -> None:
        self._open.remove(self)
        atexit.unregister(self.close)
        if not self._open:
            _stop_server()

    def _fill(self) -> None:
        if self._waiting and not self._server_is_ready:
            self._start_server()
        while self._waiting:
            name, job = next(iter(self._waiting.items()))
            if (device := self._device_for(job)) is None:
                return
            with defer_signals():
                del self._waiting[name]
                try:
                    self._running[name] = _Worker(job, self._grace, device, self._settle)
                except (OSError, EOFError) as error:
                    reason = f"no process could be started ({error})"
                    self._ready.append(Outcome(name, "error", reason=reason, began=False))

    def _start_server(self) -> None:
        """Wait, open to Ctrl-C, until the server has loaded its modules: then it can fork."""
        _CONTEXT.set_forkserver_preload(self._preload)
        resource_tracker.ensure_running()  # first, because it unblocks SIGINT when it starts
        with defer_signals():
            forkserver.ensure_running()
        probe = _CONTEXT.Process(target=os.getpid, daemon=True)
        try:
            _start(probe)
        except (OSError, EOFError):
            what = f"workers cannot start: loading {', '.join(self._preload)} failed, see above"
            raise ChildProcessError(what) from None
        probe.join()
        self._server_is_ready = True

    def _device_for(self, job: Job) -> int | None:
        """The first of the job's accelerators, where the fewest jobs run; None: it has to wait.

        A job that asks for more than there is runs when nothing else does.
        """
        if not self._running:
            return 0
        if len(self._running) >= self.capacity:
            return None
        jobs, used = [0] * self._devices, [0.0] * self._devices
        for worker in self._running.values():
            for device in range(worker.device, worker.device + _count(worker.job))[: self._devices]:
                jobs[device] += 1
                used[device] += min(worker.job.accelerators, 1.0)
        room = 1.0 - min(job.accelerators, 1.0) + 1e-9  # three thirds are one
        firsts = range(self._devices - _count(job) + 1)
        free = [first for first in firsts if max(used[first : first + _count(job)]) <= room]
        return min(free, key=jobs.__getitem__, default=None)

    def _wait(self) -> None:
        """Sleep until a worker writes, ends or runs out of time, and take note of it."""
        workers = self._running.values()
        handles: dict[Any, _Worker] = {worker.process.sentinel: worker for worker in workers}
        handles |= {worker.reader: worker for worker in workers if not worker.reader.closed}
        pulse = math.inf if self._is_stopping is None else _PULSE
        left = min(pulse, min(each.deadline for each in workers) - time.monotonic())
        written = wait(list(handles), None if math.isinf(left) else max(0.0, left))
        with defer_signals():  # a message that was read must not be lost
            for handle in written:
                worker = handles[handle]
                if isinstance(handle, int):  # a sentinel
                    del self._running[worker.job.id]
                    self._ready += worker.finish()
                else:
                    self._ready += worker.read()
        for worker in workers:
            if time.monotonic() >= worker.deadline:
                worker.run_out()
        if self._is_stopping is not None and self._is_stopping():
            self.cancel()


class _Worker:
    """One job's process, as the driver sees it."""

    def __init__(self, job: Job, grace: float, device: int, settle: str | None) -> None:
        self.job, self.device, self._grace = job, device, grace
        self.ending: tuple[str, str] | None = None
        self._result: dict[str, Any] | None = None
        self._partial = b""
        self.reader, writer = _CONTEXT.Pipe(duplex=False)
        os.set_blocking(self.reader.fileno(), False)
        # A file without a name: nothing stays on the disk after a kill.
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        # A Connection is how multiprocessing hands over a file descriptor.
        output = Connection(os.dup(self._output.fileno()), readable=False)
        self.process = _CONTEXT.Process(target=_work, args=(job, device, settle, writer, output))
        try:
            _start(self.process)
        except BaseException:
            self.reader.close()
            self._output.close()
            raise
        finally:
            writer.close()
            output.close()
        assert self.process.pid
        self._pid, self._started = self.process.pid, time.monotonic()
        self.deadline = self._started + (math.inf if job.seconds is None else job.seconds)

    def read(self) -> list[Event]:
        """The messages that have arrived; waits for none, since the sender may be dead."""
        with contextlib.suppress(BlockingIOError):
            while not self.reader.closed:
                self._partial += (chunk := os.read(self.reader.fileno(), 1 << 20))
                if not chunk:
                    self.reader.close()
        *lines, self._partial = self._partial.split(b"\n")
        events: list[Event] = []
        for message in map(json.loads, lines):
            if "status" in message:
                self._result = message
            else:
                events.append(Progress(self.job.id, **message))
        return events

    def end(self, status: str, reason: str) -> None:
        """Ask the job to stop; after the grace it is made to."""
        if self.ending is None:
            self.ending = status, reason
            self.deadline = time.monotonic() + self._grace
            self._signal(signal.SIGTERM)

    def run_out(self) -> None:
        """A deadline has passed: first the time limit, then the grace after SIGTERM."""
        if self.ending is None:
            self.end("timeout", f"longer than {self.job.seconds:g} s")
        else:
            self.deadline = math.inf
            self._signal(signal.SIGKILL)

    def finish(self) -> list[Event]:
        """The last reports and the outcome of an ended process; ends its children, too."""
        seconds = time.monotonic() - self._started
        survived = _signal_group(self._pid, signal.SIGKILL)  # processes that the job left running
        events = self.read()
        plain = self._result or _death(self.process.exitcode, survived)
        if self.ending:
            plain["status"], plain["reason"] = self.ending
        if plain["status"] != "done":
            plain["detail"] = "\n".join(filter(None, [plain.get("detail"), self._tail()])) or None
        self.reader.close()
        self._output.close()
        self.process.close()
        return [*events, Outcome(self.job.id, **plain, seconds=seconds)]

    def _tail(self) -> str:
        file = self._output.fileno()
        # pread, because processes that still write this file share its position.
        last = os.pread(file, 4 * _TAIL, max(0, os.fstat(file).st_size - 4 * _TAIL))
        text = last.decode("utf-8", "replace").strip()[-_TAIL:]
        return f"Output:\n{text}\n" if text else ""

    def _signal(self, number: int) -> None:
        if not _signal_group(self._pid, number):  # not yet a leader, so still alone
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)


def _count(job: Job) -> int:
    """How many accelerators a job runs on: a share of one takes one."""
    return max(1, math.ceil(job.accelerators))


def _signal_group(leader: int, number: int) -> bool:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):  # macOS: a group with only zombies left
        return False
    return True


def _death(code: int | None, survived: bool) -> dict[str, Any]:
    """The outcome of a process that left no result."""
    assert code is not None
    if code == _SERVER_LOST and survived:
        return {"status": "killed", "reason": "the server that forks workers was killed"}
    if code >= 0:
        return {"status": "error", "reason": f"ended without a result (exit code {code})"}
    name = {each.value: each.name for each in signal.Signals}.get(-code, f"signal {-code}")
    hint = " (often the kernel, when memory runs out)" if name == "SIGKILL" else ""
    return {"status": "killed", "reason": name + hint}


def _start(process: BaseProcess) -> None:
    """Start it without the driver's main module, which it would import again, to no use."""
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        process.start()
    except (ConnectionError, EOFError):  # the server has died
        _stop_server()
        process.start()
    finally:
        sys.modules["__main__"] = main


def _stop_server() -> None:
    """Free its memory; the next job starts another, which may preload something else."""
    server: Any = forkserver._forkserver
    if server._forkserver_pid is not None:
        # By itself it would stay while a child that has left its job's session is alive.
        with contextlib.suppress(ProcessLookupError):
            os.kill(server._forkserver_pid, signal.SIGKILL)
        server._stop()


def _work(
    job: Job, device: int, settle: str | None, messages: Connection, output: Connection
) -> None:
    """The life of a worker: do its job, write how it ended, and exit."""
    os.setsid()
    _die_with_driver()
    # When memory runs out the kernel takes a worker first, and the driver lives to report it.
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write("1000")
    # Output of C code and of child processes, too.
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(output.fileno(), number)
        stream = open(number, "w", 1, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
    output.close()
    # SIGINT and SIGTERM end the worker; SIGTERM and a crash first print where it was.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    faulthandler.enable(all_threads=False)
    faulthandler.register(signal.SIGTERM, all_threads=False, chain=True)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(job.threads)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(job.threads)
    pipe = open(messages.fileno(), "wb", closefd=False)  # noqa: SIM115

    def send(**message: Any) -> None:
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    try:
        if settle is not None:
            select: Any = resolve(settle)
            select(device)
        value = resolve(job.call)(
            job.payload, lambda fraction, note: send(fraction=fraction, note=note)
        )
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a value that is there is worth sending
        send(status="done", value=value)
    except BaseException as error:  # also a value that is no JSON
        failed = failure(job.id, error)
        send(status=failed.status, reason=failed.reason, detail=failed.detail)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a thread that the job forgot must not hold up its outcome


def _die_with_driver() -> None:
    """Kill this worker's whole group once the driver is gone.

    multiprocessing gives each child the reading end of a pipe whose other end only the driver
    holds: when the driver dies, the pipe ends.
    """
    driver = multiprocessing.parent_process()
    assert driver is not None
    group, pipe = os.getpgrp(), driver.sentinel

    def watch() -> None:
        driver.join()
        os.killpg(group, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()
    if sys.platform == "linux":
        # No thread runs while C code holds the interpreter's lock, but the kernel does.
        fcntl.fcntl(pipe, fcntl.F_SETOWN, -group)
        fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
