"""The state of the machine while it is timed, and whether others were at work on it."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch

from ablations.train.device import device_name

NOISY = 0.05  # of the cores' time: so much of others' work flags a session


@dataclass
class Watch:
    """From here to `state`: what this process and its children did, and what others did."""

    begun: float = field(default_factory=time.monotonic)
    busy: float = field(default_factory=lambda: _busy())
    own: float = field(default_factory=lambda: _own())
    load: float = field(default_factory=lambda: _load())

    def state(self, device: torch.device) -> dict[str, Any]:
        """For the session's entry in a record; what this machine cannot tell is null."""
        seconds = max(time.monotonic() - self.begun, 1e-9)
        cores = psutil.cpu_count() or 1
        others = max(0.0, (_busy() - self.busy) - (_own() - self.own)) / (seconds * cores)
        return {
            "device": device_name(device),
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "cores": cores,
            "seconds": round(seconds, 1),
            "load": [self.load, _load()],
            "others": round(others, 3),
            "noisy": others > NOISY,
        }


def _busy() -> float:
    """Seconds that all cores together have worked for anyone, a host that took some included."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user
    return float(sum(times) - idle - guest)


def _own() -> float:
    """Of this process and of its children that have ended."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in each)


def _load() -> float:
    return round(os.getloadavg()[0], 2)
