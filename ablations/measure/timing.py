"""Times that can be compared: side by side, in randomised complete blocks, in several processes.

A machine drifts, so no time means anything alone. Every block times each candidate once, in a new
random order; ratios are taken within blocks. The reference is built and timed twice under two
names, and the difference between the two is the noise floor. A process has luck of its own, in
where its memory lies, that no number of blocks averages away: intervals are over processes.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from model.config import ConfigError

Call = Callable[[], None]
Report = Callable[[float, str], None]


@dataclass(frozen=True, kw_only=True)
class TimingConfig:
    """How a timing session is run."""

    processes: int = 3
    blocks: int = 5
    """In each process."""
    warmup: int = 3
    """Calls of each candidate before the first block."""
    sample_seconds: float = 0.02
    """A sample repeats a quick call until it takes about this long."""
    cap_seconds: float = 60.0
    """No new block is begun after this, in all processes together."""
    shapes: list[dict[str, int]] = field(default_factory=lambda: [{"length": 16, "batch": 64}])

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigError([f"processes={self.processes}: must be at least 1"])
        if self.blocks < 2:
            raise ConfigError([f"blocks={self.blocks}: an interval needs at least 2"])
        if self.warmup < 1:
            raise ConfigError([f"warmup={self.warmup}: must be at least 1"])


def synchronise(device: torch.device) -> None:
    """Wait until the device has done what it was told; the CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def time_blocks(
    calls: Mapping[str, Call],
    config: TimingConfig,
    device: torch.device,
    seed: int = 0,
    report: Report = lambda fraction, note: None,
) -> dict[str, list[float]]:
    """Seconds a call, for each candidate one sample a block: sample i of all is from block i."""

    def clock(name: str, repeats: int) -> float:
        synchronise(device)
        start = time.perf_counter()
        for _ in range(repeats):
            calls[name]()
        synchronise(device)
        return (time.perf_counter() - start) / repeats

    repeats = {}
    for name in calls:
        warm = [clock(name, 1) for _ in range(config.warmup)]
        repeats[name] = max(1, math.ceil(config.sample_seconds / max(min(warm), 1e-9)))
    samples: dict[str, list[float]] = {name: [] for name in calls}
    shuffle = random.Random(seed)
    begun = time.perf_counter()
    for block in range(config.blocks):
        if block >= 2 and time.perf_counter() - begun > config.cap_seconds / config.processes:
            break
        for name in shuffle.sample(sorted(calls), len(calls)):
            samples[name].append(clock(name, repeats[name]))
        report((block + 1) / config.blocks, f"block {block + 1}")
    return samples


def probe_memory(
    small: Callable[[], Call], prepare: Callable[[], Call], device: torch.device
) -> tuple[int | None, str | None]:
    """Bytes that a prepared call adds to a process that has run a small one, or why it could not.

    The small one pays for what any first call loads. Both run in a forked child, so that running
    out of memory costs the child alone.
    """

    def probe(_: Report) -> int:
        small()()
        before = _peak_bytes(device)
        prepare()()
        return _peak_bytes(device) - before

    return in_child(probe)


def in_child(
    work: Callable[[Report], Any], report: Report = lambda fraction, note: None
) -> tuple[Any, str | None]:
    """What a forked child makes of some work, as JSON has it; or why it could not, in a line."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)

            def tell(fraction: float, note: str) -> None:
                os.write(writer, json.dumps({"progress": [fraction, note]}).encode() + b"\n")

            with os.fdopen(os.dup(writer), "wb") as end:
                try:
                    answer = {"done": work(tell)}
                except Exception as error:
                    words = (str(error) or type(error).__name__).splitlines()[0]
                    answer = {"failed": words[:200]}
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


def _peak_bytes(device: torch.device) -> int:
    if device.type != "cpu":
        return torch.accelerator.max_memory_allocated(device)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
