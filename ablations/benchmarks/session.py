"""A session of benchmarks: candidates beside a baseline, timed in several fresh processes.

A machine drifts, so no time means anything alone. Every block times each candidate once, in a new
random order, and ratios are taken within blocks. The baseline is built and timed twice, under two
names: the A/A pair shows the noise. Each process lays out its memory in its own way, which no
number of blocks averages away: intervals are over processes.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import psutil
import torch

from ablations.benchmarks.child import Report, cpu_seconds, in_child
from ablations.measurement import Benchmark, Place
from ablations.store.identity import canonical_json
from ablations.store.record import Measurement
from ablations.store.words import first_line
from ablations.tasks.task import load_task
from ablations.train.device import device_name
from model.config import Checked, ranged

Call = Callable[[], None]

SLOW = 0.2  # seconds: a call that takes longer is timed in fewer blocks


@dataclass(frozen=True, kw_only=True)
class TimingConfig(Checked):
    """How a timing session is run."""

    processes: int = ranged(3, least=1)
    blocks: int = ranged(5, least=2)
    """Blocks in each process."""
    slow_blocks: int = 2
    """Blocks of a slow call, at most."""
    warmup: int = ranged(3, least=1)
    """Calls of each candidate before the first block; a slow call has two at most."""
    sample_seconds: float = 0.02
    """A sample repeats a quick call until it takes about this long."""
    cap_seconds: float = 60.0
    """After this long at one point, in all processes together, no block begins."""
    call_seconds: float = 10.0
    """A call that takes longer is a time-out and is not timed."""
    longest: int | None = None
    """Points with a larger value of the coordinate `along` are left out."""
    lengths: int | None = ranged(None, least=2)
    """At most so many values of that coordinate, from the first to the last."""


@dataclass(frozen=True)
class Warm:
    """Seconds of the calls before the first block."""

    first: float
    """The first call, with loading and compiling."""
    call: float
    """The shortest call."""


def synchronise(device: torch.device) -> None:
    """Wait until the device has finished; the CPU always has."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


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
    """Seconds of a call: one sample for each block; a slow candidate stops after a few blocks."""
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
        due = [n for n in sorted(calls) if block < config.slow_blocks or warm[n].call <= SLOW]
        for name in shuffle.sample(due, len(due)):
            samples[name].append(clock(calls[name], device, repeats[name]))
        report((block + 1) / config.blocks, f"block {block + 1}")
    return samples


def clock(call: Call, device: torch.device, repeats: int = 1) -> float:
    """Seconds a call."""
    synchronise(device)
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    synchronise(device)
    return (time.perf_counter() - start) / repeats


BASELINE, BASELINE_AGAIN = "baseline_samples", "baseline_again"  # as records call them
TOKENS = "tokens"  # a coordinate that decides the batch at each length
NOISY = 0.05  # of the cores' time: more work of other programs flags a session


@dataclass
class Watch:
    """Measures the work of this process, its children and other programs until `state`."""

    begun: float = field(default_factory=time.monotonic)
    busy: float = field(default_factory=lambda: _busy())
    own: float = field(default_factory=lambda: _own())
    load: float = field(default_factory=lambda: _load())

    def state(self, device: torch.device) -> dict[str, Any]:
        """The session's entry in a record."""
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
    """CPU seconds of all programs; those that a host took count too."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guest = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user
    return float(sum(times) - idle - guest)


def _own() -> float:
    """CPU seconds of this process and of its measuring processes."""
    return time.process_time() + sum(cpu_seconds.values())


def _load() -> float:
    return round(os.getloadavg()[0], 2)


@dataclass
class Point:
    """The times of one process at one point."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    """Seconds of the first call."""
    left: dict[str, str] = field(default_factory=dict)
    """Candidates that were not timed → why."""


def time_session(
    benchmark: Benchmark,
    reference: dict[str, Any],
    candidates: Mapping[str, dict[str, Any]],
    places: Sequence[Place],
    config: TimingConfig,
    device: torch.device,
    report: Report,
    lost: list[str] | None = None,
) -> dict[str, list[Measurement]]:
    """The measurements of each candidate.

    Why a process brought none is added to `lost`; RuntimeError if none of them brought any.
    """
    configs = {BASELINE: reference, BASELINE_AGAIN: reference, **candidates}
    ordered = sorted(
        places, key=lambda at: (canonical_json(_series(at, benchmark)), at[benchmark.along])
    )
    found: list[list[Point]] = []
    failures: list[str] = []
    for number in range(config.processes):
        # Later processes skip what the first could not time.
        left = [point.left for point in found[0]] if found and found[0] else [{} for _ in ordered]
        process = _Process(benchmark, configs, ordered, left, config, device)

        def report_all(fraction: float, note: str, number: int = number) -> None:
            report((number + fraction) / config.processes, f"process {number + 1}, {note}")

        points, failure = in_child(partial(process.run, number), report_all)
        found.append(points or [])
        failures += [failure] if failure else []
    if len(failures) == config.processes:
        raise RuntimeError(f"no process could time it: {failures[0]}")
    if lost is not None:
        lost += failures
    return {
        trial: [
            measurement
            for index, at in enumerate(ordered)
            for number, points in enumerate(found)
            if points
            for measurement in _measurements(benchmark, trial, dict(at), points[index], str(number))
        ]
        for trial in candidates
    }


def _series(at: Place, benchmark: Benchmark) -> dict[str, Any]:
    """The coordinates that stay the same along a curve."""
    walked = (benchmark.along, "batch") if TOKENS in at else (benchmark.along,)
    return {name: value for name, value in at.items() if name not in walked}


@dataclass
class _Process:
    """The work of one process."""

    benchmark: Benchmark
    configs: Mapping[str, dict[str, Any]]
    places: Sequence[Place]
    left: Sequence[Mapping[str, str]]
    """For each point: candidate that is left out → reason."""
    config: TimingConfig
    device: torch.device
    _took: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """(series, name) → how far along, and seconds of a call there."""

    def run(self, number: int, report: Report) -> list[Point]:
        # Some bytes that stay, so that every process lays out its memory differently.
        ballast = bytes(random.Random(number).randrange(1 << 16))
        points = []
        for index, (at, left) in enumerate(zip(self.places, self.left, strict=True)):
            where = ", ".join(f"{name} {value}" for name, value in at.items())

            def report_place(
                fraction: float, _: str, index: int = index, where: str = where
            ) -> None:
                report((index + fraction) / len(self.places), where)

            points.append(self._time(at, Point(left=dict(left)), number, report_place))
        del ballast
        return points

    def _time(self, at: Place, point: Point, number: int, report: Report) -> Point:
        calls: dict[str, Callable[[], None]] = {}
        warm: dict[str, Warm] = {}
        series = canonical_json(_series(at, self.benchmark))
        far = float(at[self.benchmark.along])
        limit = self.config.call_seconds
        for name in self.configs:
            if name in point.left:
                continue
            before, took = self._took.get((series, name), (far, 0.0))
            growth = 1.0 if TOKENS in at else far / before  # no model is faster than linear
            if took * growth > limit:
                point.left[name] = f"time-out: a call takes {took:.2g} s at {before:g} already"
                continue
            try:
                calls[name] = self._prepare(name, at)
                warm[name] = warm_up(calls[name], self.config, self.device)
            except (RuntimeError, MemoryError, ValueError) as error:
                point.left[name] = _reason(error)
                calls.pop(name, None)
                continue
            point.first[name] = warm[name].first
            self._took[series, name] = far, warm[name].call
            if warm[name].call > limit:
                point.left[name] = f"time-out: a call takes {warm[name].call:.2g} s"
                del calls[name]
        point.samples = run_blocks(calls, warm, self.config, self.device, number, report)
        return point

    def _prepare(self, name: str, at: Place) -> Callable[[], None]:
        config = self.configs[name]
        is_baseline = name in (BASELINE, BASELINE_AGAIN)
        where = {**at, **self.benchmark.beside} if is_baseline else at
        return self.benchmark.prepare(
            config, load_task(canonical_json(config["task"])), self.device, where
        )


def _reason(error: Exception) -> str:
    words = first_line(error)
    is_memory = isinstance(error, MemoryError) or "alloc" in words or "out of memory" in words
    return f"out of memory: {words}" if is_memory else words


def _measurements(
    benchmark: Benchmark, trial: str, at: dict[str, Any], point: Point, process: str
) -> list[Measurement]:
    """The times of one trial at one point in one process, with those of the baseline."""
    metric = next(iter(benchmark.metrics))
    unit = benchmark.metrics[metric].unit
    place: dict[str, Any] = {"coordinates": at, "session": process}
    if trial not in point.samples:
        return [Measurement(metric, unit, reason=point.left.get(trial) or "not timed", **place)]
    timed = [role for role in (BASELINE, BASELINE_AGAIN) if role in point.samples]
    blocks = min(len(point.samples[name]) for name in (trial, *timed))
    times: dict[str, Any] = {role: point.samples[role][:blocks] for role in timed}
    found = [Measurement(metric, unit, samples=point.samples[trial][:blocks], **times, **place)]
    if process == "0":
        found.append(Measurement("first_call", "s", point.first[trial], **place))
    return found
