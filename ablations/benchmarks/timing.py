"""Times that can be compared: side by side, in randomised complete blocks, in several processes.

A machine drifts, so no time means anything alone. Every block times each candidate once, in a new
random order; ratios are taken within blocks. The reference is built and timed twice under two
names, and the difference between the two is the noise floor. A process has luck of its own, in
where its memory lies, that no number of blocks averages away: intervals are over processes.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from model.config import ConfigError

Call = Callable[[], None]
Report = Callable[[float, str], None]

SLOW = 0.2  # seconds: a call that takes longer is timed in fewer blocks


@dataclass(frozen=True, kw_only=True)
class TimingConfig:
    """How a timing session is run."""

    processes: int = 3
    blocks: int = 5
    """In each process, of calls that are not slow."""
    slow_blocks: int = 2
    """The same of those that are, at most."""
    warmup: int = 3
    """Calls of each candidate before the first block; two of a slow call, whose first may only have
    loaded or compiled."""
    sample_seconds: float = 0.02
    """A sample repeats a quick call until it takes about this long."""
    cap_seconds: float = 60.0
    """At one point no new block is begun after this, in all processes together."""
    call_seconds: float = 10.0
    """A call that takes longer is not timed: that point is a time-out."""
    longest: int | None = None
    """Points beyond this, along the coordinate that is walked, are left out."""
    lengths: int | None = None
    """So many points along it, the first and the last among them."""

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise ConfigError([f"processes={self.processes}: must be at least 1"])
        if self.blocks < 2:
            raise ConfigError([f"blocks={self.blocks}: an interval needs at least 2"])
        if self.warmup < 1:
            raise ConfigError([f"warmup={self.warmup}: must be at least 1"])
        if self.lengths is not None and self.lengths < 2:
            raise ConfigError([f"lengths={self.lengths}: must be at least 2"])


@dataclass(frozen=True)
class Warm:
    """What the calls before the first block tell of a candidate."""

    first: float
    """Seconds of the very first call, with all that it loads or compiles."""
    call: float
    """Seconds of the shortest one."""


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
    warm = {name: warm_up(call, config, device) for name, call in calls.items()}
    return run_blocks(calls, warm, config, device, seed, report)


def warm_up(call: Call, config: TimingConfig, device: torch.device) -> Warm:
    first = clock(call, device)
    others = min(config.warmup - 1, 1 if first > SLOW else config.warmup)
    return Warm(first, min([first, *(clock(call, device) for _ in range(others))]))


def run_blocks(
    calls: Mapping[str, Call],
    warm: Mapping[str, Warm],
    config: TimingConfig,
    device: torch.device,
    seed: int = 0,
    report: Report = lambda fraction, note: None,
) -> dict[str, list[float]]:
    """The same after a warm-up; a slow candidate has samples of the first blocks alone."""
    repeats = {
        name: max(1, math.ceil(config.sample_seconds / max(warm[name].call, 1e-9)))
        for name in calls
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    shuffle = random.Random(seed)
    begun = time.perf_counter()
    for block in range(config.blocks):
        if block >= 2 and time.perf_counter() - begun > config.cap_seconds / config.processes:
            break
        due = [name for name in sorted(calls) if block < blocks_of(warm[name], config)]
        for name in shuffle.sample(due, len(due)):
            samples[name].append(clock(calls[name], device, repeats[name]))
        report((block + 1) / config.blocks, f"block {block + 1}")
    return samples


def blocks_of(warm: Warm, config: TimingConfig) -> int:
    return config.blocks if warm.call <= SLOW else min(config.slow_blocks, config.blocks)


def clock(call: Call, device: torch.device, repeats: int = 1) -> float:
    """Seconds a call."""
    synchronise(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise(device)
    return (time.perf_counter() - start) / repeats
