"""Run work in a fresh process, so that a crash or lack of memory ends that process alone.

The process is forked from a server that has torch loaded and has never opened a device.
"""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import resource
import sys
import time
import types
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psutil
import torch

from ablations.measurement import MEASUREMENT
from ablations.store.words import first_line
from ablations.tasks import TASK
from ablations.train.config import OPTIMIZER, SCHEDULE
from model.build import REGISTRIES

Report = Callable[[float, str], None]

cpu_seconds: dict[int, float] = {}
"""Process id → CPU seconds, of the processes that have ended and of their server."""
_PRELOAD = ["torch._dynamo", "ablations.benchmarks.session", "ablations.probes.complexity"]
_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def in_child(
    work: Callable[[Report], Any], report: Report = lambda fraction, note: None
) -> tuple[Any, str | None]:
    """The value of `work` in a fresh process, or the reason for a failure in one line."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    registries = (*REGISTRIES, TASK, MEASUREMENT, OPTIMIZER, SCHEDULE)
    modules = {part.__module__ for registry in registries for part in registry.components.values()}
    index = torch.accelerator.current_device_index() if torch.accelerator.is_available() else None
    # Pickled here: torch's own pickling would share the memory of tensors with this process.
    payload = pickle.dumps((work, torch.get_num_threads(), index))
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(sorted(modules), payload, writer), daemon=True)
    answer: tuple[Any, str | None] = None, "its process was killed"
    with reader:
        try:
            with writer, _without_main():
                process.start()
            while True:
                match reader.recv():
                    case "progress", *progress:
                        report(*progress)
                    case "done", value, reason, spent:
                        answer = pickle.loads(value), reason
                        cpu_seconds.update(spent)
        except EOFError:
            return answer
        finally:
            with contextlib.suppress(AttributeError):  # it was never started
                process.kill()
                process.join()
                process.close()


def _run(modules: list[str], payload: bytes, pipe: Connection) -> None:
    """The work of the fresh process; `modules` register the components that it may build."""
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    value, reason = pickle.dumps(None), None
    try:
        work, threads, index = pickle.loads(payload)
        torch.set_num_threads(threads)
        if index is not None:
            torch.accelerator.set_device_index(index)
        limit_memory()
        value = pickle.dumps(work(lambda *progress: pipe.send(("progress", *progress))))
    except Exception as error:
        reason = first_line(error)
    server = psutil.Process(os.getppid()).cpu_times()
    spent = {os.getpid(): time.process_time(), os.getppid(): server.user + server.system}
    pipe.send(("done", value, reason, spent))


@contextlib.contextmanager
def _without_main() -> Any:
    """Hide this process's main module, which a new process would import again."""
    main, sys.modules["__main__"] = sys.modules["__main__"], types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def limit_memory() -> None:
    """Make an allocation beyond the free memory fail, before the kernel kills a process."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        room = psutil.Process().memory_info()
        held = getattr(room, "data", room.vms)
        most = held + psutil.virtual_memory().available
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def peak_bytes(call: Callable[[], Any], device: torch.device) -> int:
    """The peak memory that a call adds to this process."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
        torch.accelerator.reset_peak_memory_stats(device)
        before = torch.accelerator.memory_allocated(device)
        call()
        torch.accelerator.synchronize(device)
        return torch.accelerator.max_memory_allocated(device) - before
    try:
        _RESET.write_text("5")  # on Linux: sets the high-water mark back
        before = psutil.Process().memory_info().rss
    except OSError:
        before = _high_water_mark()
    call()
    return max(0, _high_water_mark() - before)


def _high_water_mark() -> int:
    """The largest resident size so far."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
