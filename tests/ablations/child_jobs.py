"""What tests have done in a fresh process, which imports this anew."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import torch

from ablations.benchmarks.child import Report
from ablations.probes import complexity

MIB = 1 << 20


def give(value: Any, _: Report) -> Any:
    return value


def give_no_value(_: Report) -> Any:
    return lambda: None


def held(_: Report) -> list[int]:
    return [MIB, torch.get_num_threads()]


def tell(report: Report) -> str:
    report(0.5, "half")
    report(1.0, "all\nof it")
    return "done"


def fail(error: BaseException, _: Report) -> None:
    raise error


def die(_: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def allocate(size: int, _: Report) -> int:
    return torch.ones(size, dtype=torch.uint8).numel()


def spin(seconds: float, _: Any = None) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Allocates:
    """A step that holds so many MiB for a moment."""

    def prepare(self, config: Any, task: Any, device: Any, at: Any) -> Callable[[], None]:
        def call() -> None:
            torch.ones(int(at["length"]) * MIB, dtype=torch.uint8)

        return call


def peak_of_allocating(of: str, length: int, report: Report) -> int:
    complexity.LayerTime = complexity.Throughput = Allocates  # type: ignore[assignment,misc]
    return complexity._peak(of, {}, None, torch.device("cpu"), length, report)  # type: ignore[arg-type]
