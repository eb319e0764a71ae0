"""One call in several processes, the ranks, which this one starts and watches.

They belong to the group of this process, so that what ends the group ends them, and each dies with
this process, whatever kills it. Where one fails or is lost, the others are killed: they would wait
for it. Top down: the call, the ranks as this process sees them, and the life of each.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from ablations.launch import Report, resolve
from ablations.train.stopping import Notice, Stopped, noticing

_PAUSE = 0.2  # seconds between two looks at whether this process was told to stop
_GRACE = 2.0  # seconds in which another rank may turn out to be lost after one has failed


def run_together(
    call: str, payload: dict[str, Any], count: int, report: Report, notice: Notice
) -> Any:
    """Let each rank call `package.module:function` with (payload, report, notice): rank 0's value.

    What a rank raises is raised here, and `Stopped` where a process was lost. Told to stop, this
    tells rank 0: it alone can settle with the others where.
    """
    with tempfile.TemporaryDirectory() as folder:
        crew = _Crew(call, payload, count, Path(folder, "ranks"))
        try:
            while crew.readers:
                crew.hear(report)
                if notice():
                    crew.stop()
        finally:
            crew.close()
    if crew.cause is None:
        return crew.value
    if notice():
        raise Stopped from crew.cause
    raise crew.cause


class _Elsewhere(Exception):
    """Where in another process something was raised."""


class _Crew:
    """The ranks, by what they tell and by the end of what they can tell through."""

    def __init__(self, call: str, payload: dict[str, Any], count: int, place: Path) -> None:
        self.value: Any = None
        """What rank 0 has returned."""
        self.cause: Exception | None = None
        """What went wrong first."""
        self.readers: dict[Connection, int] = {}
        self._raised: list[tuple[float, Exception]] = []
        self._blame_by = math.inf
        self._finished: set[int] = set()
        self._is_ready = False  # rank 0, to be told to stop
        self._processes: list[Any] = []
        spawn = multiprocessing.get_context("spawn")  # a fork would have threads cut off in it
        for rank in range(count):
            reader, writer = spawn.Pipe(duplex=False)
            self.readers[reader] = rank
            words = (call, payload, rank, count, os.getpid(), str(place), writer)
            process = spawn.Process(target=_live, args=words)
            process.start()
            writer.close()  # now the pipe ends with its rank
            self._processes.append(process)

    def hear(self, report: Report) -> None:
        """Take what they tell, as soon as there is something; tell the cause once it is known."""
        for reader in wait([*self.readers], _PAUSE):
            assert isinstance(reader, Connection)
            rank = self.readers[reader]
            try:
                word, *rest = reader.recv()
            except (EOFError, OSError):
                del self.readers[reader]
                reader.close()
                self._part_with(rank)
                continue
            if word == "progress":
                report(*rest)
            elif word == "here":
                self._is_ready = self._is_ready or rank == 0
            else:
                self._finished.add(rank)
            if word == "done" and rank == 0:
                (self.value,) = rest
            if word == "raised":
                moment, error, where = rest
                error.__cause__ = _Elsewhere(where)
                self._raised.append((moment, error))
                self._blame_by = min(self._blame_by, time.monotonic() + _GRACE)
        # Those that waited for one that is lost fail too, and may be heard of before its pipe ends.
        is_due = time.monotonic() >= self._blame_by
        if self._raised and (is_due or self._finished.issuperset(self.readers.values())):
            self._end_with(min(self._raised, key=lambda each: each[0])[1])

    def _part_with(self, rank: int) -> None:
        """A rank has ended, with or without a word."""
        process = self._processes[rank]
        process.join()
        if rank in self._finished:
            return
        who = f"the process of device {rank}"
        if process.exitcode < 0:
            self._end_with(Stopped(f"{who} was killed"))
        else:
            self._end_with(RuntimeError(f"{who} ended with exit code {process.exitcode}"))

    def _end_with(self, cause: Exception) -> None:
        if self.cause is None:
            self.cause = cause
            for process in self._processes:
                process.kill()

    def stop(self) -> None:
        """Tell rank 0, once, when it can be told."""
        if self._is_ready and 0 not in self._finished:
            self._processes[0].terminate()
            self._is_ready = False

    def close(self) -> None:
        for process in self._processes:
            if self.readers:  # this process is leaving before they have ended
                process.kill()
            process.join()
            process.close()
        for reader in self.readers:
            reader.close()


def _live(
    call: str,
    payload: dict[str, Any],
    rank: int,
    count: int,
    parent: int,
    place: str,
    writer: Connection,
) -> None:
    """The life of a rank: call the function and tell how that ended."""
    _die_with(parent)
    import torch

    from ablations.train.ranks import PLACE

    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
    # All meet in a file and on loopback: a port would be open to whoever can reach this machine.
    os.environ[PLACE] = place
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)

    def report(fraction: float, note: str) -> None:
        if rank == 0:
            writer.send(("progress", fraction, note))

    try:
        with noticing() as notice:
            writer.send(("here",))
            function: Callable[..., Any] = resolve(call)
            value = function(payload, report, notice)
            # What is done is to be handed over, whatever is told from now on.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            writer.send(("done", value if rank == 0 else None))
    except BaseException as error:
        where = "".join(traceback.format_exception(error))
        writer.send(("raised", time.monotonic(), _portable(error), f"\n{where}"))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # at once: the others may wait for this one


def _die_with(parent: int) -> None:
    """End this process when the one that started it is gone, be that before it could say so."""
    from torch.multiprocessing import _prctl_pr_set_pdeathsig  # type: ignore[attr-defined]

    starter = multiprocessing.parent_process()
    assert starter is not None

    def watch() -> None:
        starter.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    _prctl_pr_set_pdeathsig(signal.SIGKILL)  # Linux alone: also while C code holds the lock
    if os.getppid() != parent:
        os._exit(1)


def _portable(error: BaseException) -> Exception:
    """An error that another process reads as it was; in words, where it would read another."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = None
    if isinstance(error, Exception) and type(copy) is type(error) and str(copy) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
