"""One device, or several processes that train one model with a device each: torch's ranks.

Every rank draws the same steps from the task and computes its own rows of each micro-batch. It
divides its summed loss by the labels of the whole step over the number of ranks, so that the mean
of gradients that DistributedDataParallel takes (Li et al. 2020) is the gradient of the whole step.
All ranks have equal weights at every step, and rank 0 alone writes files.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing.spawn import start_processes
from torch.nn.parallel import DistributedDataParallel

from ablations.signals import Stopped, StopRequest, catching_sigterm
from ablations.train.checkpoint import SECONDS, Checkpointer
from model.batch import IGNORE, Batch

_FOLDER = "ABLATIONS_RANKS"  # environment variable: folder where ranks meet and write outcomes
_PAUSE = 0.2  # seconds between two checks for a request to stop
_GRACE = 2.0  # seconds after a failure in which a lost rank may turn up as its cause
Forward = Callable[[Batch], Tensor]
Report = Callable[[float, str], None]
Call = Callable[[Any, Report, StopRequest], Any]


class Devices:
    """The devices of one training, as the process of one of them sees them: torch's ranks.

    With one device all rows and all sums are its own.
    """

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count
        self._model: DistributedDataParallel | None = None

    def joined(self, forward: Forward) -> Forward:
        """The model as training calls it, with the gradients of all devices."""
        if self.count == 1:
            return forward
        import torch._dynamo  # takes a second to load

        # Cutting a compiled model at the edges of DDP's buckets fails where shapes are dynamic.
        torch._dynamo.config.optimize_ddp = False
        # A batch may leave weights unused; without a gradient they stay as they are, as on one.
        self._model = DistributedDataParallel(
            cast(nn.Module, forward), forward_sync_buffers=False, find_unused_parameters=True
        )
        return self._model

    def begin(self, seed: int, step: int) -> None:
        """Seed dropout by seed, step and rank, so that no generator's state has to be saved."""
        if self.count > 1:
            torch.manual_seed(dropout_seed(seed, step, self.rank))

    def share(self, batch: Batch) -> Batch:
        """This rank's rows of a micro-batch; ranks have equally many, or one less.

        A rank without rows computes another rank's row, and none of its labels count.
        """
        rows = len(batch.labels)
        first, end = (rows * each // self.count for each in (self.rank, self.rank + 1))
        chosen = slice(first, end) if first < end else slice(1)
        own = batch if self.count == 1 else batch.map(lambda x: x[chosen])
        return own if first < end else replace(own, labels=torch.full_like(own.labels, IGNORE))

    def in_turn(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """The shares of a step, one after another; with the last, gradients become those of all."""
        with nullcontext() if self._model is None else self._model.no_sync():
            yield from batches[:-1]
        yield batches[-1]

    def mean(self, loss: Tensor) -> Tensor:
        """The mean over the devices."""
        if self.count > 1:
            dist.all_reduce(loss)
        return loss / self.count

    def own(self, batches: int) -> range:
        """Which of so many batches are evaluated here."""
        return range(self.rank, batches, self.count)

    def gathered(self, losses: list[float]) -> list[float]:
        """The losses of all batches, from those evaluated here and 0 for the others."""
        if self.count == 1:
            return losses
        each = torch.tensor(losses, dtype=torch.float64)
        dist.all_reduce(each)  # the others' entries are 0 here, so the sum is exact
        return each.tolist()

    def broadcast(self, *flags: bool) -> list[bool]:
        """The flags of rank 0."""
        each = torch.tensor(flags)
        dist.broadcast(each, src=0)
        return each.tolist()


ALONE = Devices()


def dropout_seed(seed: int, *place: int) -> int:
    """The seed of dropout, in a whole training or in one step on one device."""
    digest = sha256("\0".join(map(str, (seed, "dropout", *place))).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


class SharedCheckpointer(Checkpointer):
    """The checkpoints of several ranks: rank 0 decides when, and alone writes.

    `is_due` also decides whether to stop, so that all ranks stop at the same step.
    """

    def __init__(
        self,
        path: Path,
        stamp: Mapping[str, str],
        ranks: Devices,
        is_stopping: Callable[[], bool],
        seconds: float = SECONDS,
    ) -> None:
        super().__init__(path, stamp, seconds, lambda: self._stops)
        self._ranks, self._asked, self._stops = ranks, is_stopping, False

    def is_due(self) -> bool:
        self._stops, is_late = self._ranks.broadcast(self._asked(), super().is_due())
        return self._stops or is_late

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        if self._ranks.rank == 0:
            super().save(tensors, facts)
        elif self._stops:
            raise Stopped


@contextmanager
def ranks_on(first: torch.device) -> Iterator[tuple[Devices, torch.device]]:
    """This process as a rank, and its device: the first, or one of the next."""
    device, kind = first, first.type
    rank, count = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE"))
    backend = dist.get_default_backend_for_device(kind)
    if kind != "cpu":
        device = torch.device(kind, (first.index or 0) + rank)
        torch.accelerator.set_device_index(device)
        on_cpu = dist.get_default_backend_for_device("cpu")  # for flags and losses
        backend = f"cpu:{on_cpu},{kind}:{backend}"
    place = f"file://{os.environ[_FOLDER]}/meeting"
    dist.init_process_group(backend, init_method=place, rank=rank, world_size=count)
    yield Devices(rank, count), device
    dist.destroy_process_group()  # but not after a failure, when others may never answer


def run_together(call: Call, payload: Any, count: int, report: Report, stop: StopRequest) -> Any:
    """Call this with (payload, report, stop) in a process for each rank; return rank 0's value.

    What a rank raises is raised here, and `Stopped` where a process was lost; the others, which
    would wait for it, are killed. A request to stop goes to rank 0, which agrees with the others on
    the step. The processes belong to this one's group, and on Linux each dies with this process.
    """
    reader, writer = get_context("spawn").Pipe(duplex=False)
    with reader, writer, tempfile.TemporaryDirectory() as folder:
        words = call, payload, count, folder, writer
        ranks = start_processes(_run_rank, words, count, join=False).processes
        is_stopping, give_up_at = False, math.inf
        try:
            while True:
                codes = [each.exitcode for each in ranks]
                living = [each.sentinel for each in ranks if each.is_alive()]
                wait([reader, *living], _PAUSE if living else 0)
                while reader.poll():
                    report(*reader.recv())
                if stop() and not is_stopping:
                    ranks[0].terminate()
                    is_stopping = True
                if any(codes):
                    give_up_at = min(give_up_at, time.monotonic() + _GRACE)
                if None not in codes or _lost(codes, folder) or time.monotonic() >= give_up_at:
                    break
        finally:
            for each in ranks:
                each.kill()
                each.join()
        if not any(codes):
            return pickle.loads(Path(folder, "0").read_bytes())
        failed = [Path(folder, str(rank)) for rank, code in enumerate(codes) if code]
        # The others may have failed for want of the first.
        cause = _lost(codes, folder) or min(pickle.loads(each.read_bytes()) for each in failed)[2]
    if stop():
        raise Stopped from cause
    raise cause


def _lost(codes: Sequence[int | None], folder: str) -> Exception | None:
    """The error of a rank that ended without writing one."""
    for rank, code in enumerate(codes):
        who = f"the process of device {rank}"
        if code is not None and code < 0:
            return Stopped(f"{who} was killed")
        if code and not Path(folder, str(rank)).exists():
            return RuntimeError(f"{who} ended with exit code {code}")
    return None


def _run_rank(
    rank: int, call: Call, payload: Any, count: int, folder: str, messages: Connection
) -> None:
    """Run one rank: call the function, and write its value or its error to a file."""
    # torch lets the kernel send SIGINT when the parent is gone; C code must die of it, too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(count), _FOLDER: folder}
    # Ranks meet in a file and on loopback: a port would be open to other machines.
    os.environ["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
    torch.set_num_threads(1)

    def report(fraction: float, note: str) -> None:
        if rank == 0:
            messages.send((fraction, note))

    end = Path(folder, str(rank))
    try:
        with catching_sigterm() as stop:
            value = call(payload, report, stop)
            # The value is handed over even if a stop is requested now.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
            end.write_bytes(pickle.dumps(value))
    except BaseException as error:
        portable = _portable(error)
        portable.add_note("In another process:\n" + "".join(traceback.format_exception(error)))
        end.write_bytes(pickle.dumps((time.monotonic(), rank, portable)))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # at once: the others may wait for this one


def _portable(error: BaseException) -> Exception:
    """The error if another process can unpickle it unchanged, else its text."""
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:
        copy = None
    if isinstance(error, Exception) and type(copy) is type(error) and str(copy) == str(error):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")
