"""One call in several processes, which torchrun's launcher starts and watches.

They belong to the group of this process, so that what ends the group ends them, and each dies with
this process, whatever kills it. Where one fails or is lost, the others are killed: they would wait
for it. Top down: the call, the processes as this one sees them, and the life of each.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import os
import pickle
import secrets
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection, wait
from typing import Any

from ablations.sweep.launch import Report, resolve
from ablations.train.stopping import Notice, Stopped, noticing

_PAUSE = 0.2  # seconds between two looks at whether this process was told to stop
_GRACE = 2.0  # seconds in which another process may turn out to be lost after one has failed


def run_together(
    call: str, payload: dict[str, Any], count: int, report: Report, notice: Notice
) -> Any:
    """Let each rank call `package.module:function` with (payload, report, notice): rank 0's value.

    What a rank raises is raised here, and `Stopped` where a process was lost. Told to stop, this
    tells rank 0: it alone can settle with the others where.
    """
    crew = _Crew(count)
    try:
        with ThreadPoolExecutor(1) as pool:  # in this thread the launcher would take our signals
            launched = pool.submit(_launch, call, payload, crew.writers)
            try:
                while not launched.done():
                    crew.hear(_PAUSE, report)
                    if notice():
                        crew.stop()
            except BaseException:
                crew.kill()
                raise
        while crew.hear(0.0, report):
            pass
        crew.settle(is_over=True)
    finally:
        crew.close()
    error = crew.cause or launched.exception()
    if error is None:
        return launched.result()[0]
    if notice():
        raise Stopped from error
    raise _early_death(error) or error


def _early_death(error: BaseException) -> Exception | None:
    """What torchrun's report says of a process that ended before it could tell anything."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    if not isinstance(error, ChildFailedError):
        return None
    rank, failed = error.get_first_failure()
    if failed.exitcode < 0:
        return Stopped(f"the process of device {rank} was killed")
    return RuntimeError(f"the process of device {rank} ended with exit code {failed.exitcode}")


class _Elsewhere(Exception):
    """Where in another process something was raised."""


class _Crew:
    """The processes, by what they tell and by the end of what they can tell through."""

    def __init__(self, count: int) -> None:
        pipes = [multiprocessing.Pipe(duplex=False) for _ in range(count)]
        self.writers = [writer for _, writer in pipes]
        self.cause: BaseException | None = None
        """What went wrong first."""
        self._lost: list[int] = []
        self._raised: list[tuple[float, BaseException]] = []
        self._blame_by = math.inf
        self._readers = {reader: rank for rank, (reader, _) in enumerate(pipes)}
        self._pids: dict[int, int] = {}
        self._finished: set[int] = set()
        self._is_told = False

    def hear(self, seconds: float, report: Report) -> bool:
        """Take what they tell until then; whether that was anything."""
        ready = wait([*self._readers], seconds)
        for reader in ready:
            assert isinstance(reader, Connection)
            rank = self._readers[reader]
            try:
                word, *rest = reader.recv()
            except (EOFError, OSError):
                del self._readers[reader]
                reader.close()
                self._lost += [rank] if rank not in self._finished else []
                continue
            if word == "here":
                self._meet(rank, *rest)
            elif word == "progress":
                report(*rest)
            else:
                self._finished.add(rank)
            if word == "raised":
                moment, error, where = rest
                error.__cause__ = _Elsewhere(where)
                self._raised.append((moment, error))
                self._blame_by = min(self._blame_by, time.monotonic() + _GRACE)
        self.settle(is_over=False)
        return bool(ready)

    def settle(self, is_over: bool) -> None:
        """Tell the cause once it is known, and end the others.

        Those that waited for one that is lost fail too, and may be heard of before its pipe ends.
        """
        if self.cause is not None:
            return
        is_late = is_over or time.monotonic() >= self._blame_by
        if self._lost:
            self.cause = Stopped(f"the process of device {self._lost[0]} was killed")
        elif self._raised and (is_late or self._finished.issuperset(self._readers.values())):
            self.cause = min(self._raised, key=lambda each: each[0])[1]
        else:
            return
        self.kill()

    def _meet(self, rank: int, pid: int) -> None:
        self._pids[rank] = pid
        if len(self._pids) == len(self.writers):  # all have theirs: now a pipe ends with its rank
            for writer in self.writers:
                writer.close()

    def stop(self) -> None:
        """Tell rank 0, once it can be told."""
        if not self._is_told and 0 in self._pids and 0 in self._readers.values():
            self._signal(0, signal.SIGTERM)
            self._is_told = True

    def kill(self) -> None:
        for rank in self._readers.values():
            if rank in self._pids:
                self._signal(rank, signal.SIGKILL)

    def _signal(self, rank: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):  # it has ended since
            os.kill(self._pids[rank], number)

    def close(self) -> None:
        for end in (*self._readers, *self.writers):
            end.close()


def _launch(call: str, payload: dict[str, Any], writers: Sequence[Connection]) -> dict[int, Any]:
    """What each rank returns; an error where one ended otherwise."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    # It warns that it does not take over our signals.
    logging.getLogger("torch.distributed.elastic.multiprocessing.api").setLevel(logging.ERROR)
    # All meet in files: a port would be open to whoever can reach this machine, and the launcher
    # unpickles what it is sent there.
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        config = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=len(writers),
            run_id=secrets.token_hex(8),
            rdzv_backend="c10d",
            rdzv_endpoint=f"{folder}/launcher",
            rdzv_configs={"store_type": "file"},
            local_addr="localhost",
            max_restarts=0,
            start_method="spawn",  # a fork of this process would have threads cut off in it
            logs_specs=DefaultLogsSpecs(folder),
        )
        place = f"{folder}/ranks"
        return elastic_launch(config, _live)(call, payload, os.getpid(), place, writers)


def _live(
    call: str, payload: dict[str, Any], parent: int, place: str, writers: Sequence[Connection]
) -> Any:
    """The life of a rank: call the function and tell how that ended."""
    _die_with(parent)
    import torch

    from ablations.train.ranks import PLACE

    os.environ[PLACE] = place
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"  # no other's
    own = int(os.environ["RANK"])
    for rank, writer in enumerate(writers):
        if rank != own:
            writer.close()
    torch.set_num_threads(1)
    tell = writers[own].send

    def report(fraction: float, note: str) -> None:
        if own == 0:
            tell(("progress", fraction, note))

    try:
        with noticing() as notice:
            tell(("here", os.getpid()))
            function: Callable[..., Any] = resolve(call)
            value = function(payload, report, notice)
            tell(("done",))
            # What is done is to be handed over, whatever is told from now on.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    except BaseException as error:
        where = "".join(traceback.format_exception(error))
        tell(("raised", time.monotonic(), _portable(error), f"\n{where}"))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # at once: the others may wait for this one
    return value


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


def _portable(error: BaseException) -> BaseException:
    """An error that another process reads as it was; in words, where it would read another."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = None
    if type(copy) is type(error) and str(copy) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
