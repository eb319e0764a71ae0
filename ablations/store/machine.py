"""Where the number of a process means the same, and which process it means there."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path

HOST = socket.gethostname()
_PRECISION = 0.01  # of a start, as a name in a folder has it


def machine() -> str:
    """One word for it: containers may share a name, and not their processes."""
    parts = [HOST]
    with contextlib.suppress(OSError):  # Linux alone has these
        parts.append(os.readlink("/proc/self/ns/pid"))
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    return " ".join(parts)


def started(pid: int) -> float:
    """When a living process began; on Linux in ticks: a time of day moves when the clock is set.

    0 where /proc does not tell: it may be that of another pid namespace. A ProcessLookupError where
    the process has ended, be it that nobody has waited for it.
    """
    if sys.platform != "linux":
        return _created(pid)
    if not _proc_is_ours():
        return 0.0
    state, *rest = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    if state == b"Z":
        raise ProcessLookupError(pid)
    return float(rest[18])


def _created(pid: int) -> float:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            raise ProcessLookupError(pid)
        return process.create_time()
    except psutil.NoSuchProcess:
        raise ProcessLookupError(pid) from None
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from None


def _proc_is_ours() -> bool:
    try:
        return os.readlink("/proc/self") == str(os.getpid())
    except OSError:
        return False


def is_running(pid: int, start: float) -> bool:
    """Whether the very process of this machine that began then is there."""
    try:
        os.kill(pid, 0)
        return abs(started(pid) - start) < _PRECISION
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # another user's, and hidden: who knows
        return True
