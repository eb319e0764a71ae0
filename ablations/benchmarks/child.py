"""Work in a process of its own: what it breaks, or fills with memory, costs that process alone."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import torch

Report = Callable[[float, str], None]

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def in_child(
    work: Callable[[Report], Any], report: Report = lambda fraction, note: None
) -> tuple[Any, str | None]:
    """What a forked child makes of some work, as JSON has it; or why it could not, in a line."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            torch.set_num_threads(torch.get_num_threads())  # its pool did not come along
            limit_memory()

            def tell(fraction: float, note: str) -> None:
                os.write(writer, json.dumps({"progress": [fraction, note]}).encode() + b"\n")

            with os.fdopen(os.dup(writer), "wb") as end:
                try:
                    answer = {"done": work(tell)}
                except Exception as error:
                    answer = {"failed": in_a_line(error)}
                end.write(json.dumps(answer).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(writer)
    answer = {}
    with os.fdopen(reader, "rb") as pipe:
        for line in pipe:
            answer = json.loads(line)
            if "progress" in answer:
                report(*answer["progress"])
    os.waitpid(child, 0)
    if "done" in answer:
        return answer["done"], None
    return None, answer.get("failed") or "its process was killed"


def in_a_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]


def limit_memory() -> None:
    """Let an allocation that this machine cannot serve fail, before the kernel kills somebody."""
    with contextlib.suppress(OSError, ValueError, psutil.Error):
        room = psutil.Process().memory_info()
        held = getattr(room, "data", room.vms)
        most = held + psutil.virtual_memory().available
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        if hard == resource.RLIM_INFINITY or most < hard:
            resource.setrlimit(resource.RLIMIT_DATA, (most, hard))


def peak_bytes(call: Callable[[], Any], device: torch.device) -> int:
    """The most that a call adds to what this process holds.

    On Linux the high-water mark is set back first: that of a forked process begins with its
    parent's.
    """
    if device.type != "cpu":
        torch.accelerator.synchronize(device)
        torch.accelerator.reset_peak_memory_stats(device)
        before = torch.accelerator.memory_allocated(device)
        call()
        torch.accelerator.synchronize(device)
        return torch.accelerator.max_memory_allocated(device) - before
    is_reset = _reset_mark()
    before = psutil.Process().memory_info().rss if is_reset else _mark()
    call()
    return max(0, _mark() - before)


def _reset_mark() -> bool:
    with contextlib.suppress(OSError):
        _RESET.write_text("5")
        return True
    return False


def _mark() -> int:
    """The largest resident size so far."""
    with contextlib.suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
