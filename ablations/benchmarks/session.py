"""A timing session: candidates beside a reference and its twin, in several processes."""

from __future__ import annotations

import os
import random
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil
import torch

from ablations.benchmarks.child import in_a_line, in_child
from ablations.benchmarks.timing import Report, TimingConfig, Warm, run_blocks, warm_up
from ablations.measurement import Benchmark, Place
from ablations.store.identity import freeze
from ablations.store.record import Reading
from ablations.tasks.cache import load_task
from ablations.train.device import device_name

REFERENCE, TWIN = "reference", "twin"  # which is the reference built once more: the noise floor
TOKENS = "tokens"  # where it is a place, the batch follows from it
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


@dataclass
class Point:
    """What one process has found at one place; it crosses a pipe as JSON."""

    samples: dict[str, list[float]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    """Seconds of the first call."""
    left: dict[str, str] = field(default_factory=dict)
    """Who was not timed, and why."""


def time_session(
    measure: Benchmark,
    reference: dict[str, Any],
    candidates: Mapping[str, dict[str, Any]],
    places: Sequence[Place],
    config: TimingConfig,
    device: torch.device,
    report: Report,
    lost: list[str] | None = None,
) -> dict[str, list[Reading]]:
    """What was read of each candidate; each trial's readings stand alone.

    Why a process brought nothing is added to `lost`; RuntimeError where all of them did.
    """
    configs = {REFERENCE: reference, TWIN: reference, **candidates}
    ordered = sorted(places, key=lambda at: (freeze(_series(at, measure)), at[measure.along]))

    def prepare(name: str, at: Place) -> Callable[[], None]:
        task = load_task(freeze(configs[name]["task"]))
        is_reference = name in (REFERENCE, TWIN)
        where = {**at, **measure.beside} if is_reference else at
        return measure.prepare(configs[name], task, device, where)

    found: list[list[Point]] = []
    failures: list[str] = []
    for process in range(config.processes):
        left = [point.left for point in found[0]] if found and found[0] else [{} for _ in ordered]
        pass_on = _Process(measure, prepare, list(configs), ordered, left, config, device)

        def told(fraction: float, note: str, process: int = process) -> None:
            report((process + fraction) / config.processes, f"process {process + 1}, {note}")

        plain, failure = in_child(lambda tell, p=pass_on, k=process: p.run(k, tell), told)  # type: ignore[misc]
        found.append([Point(**each) for each in plain or []])
        failures += [failure] if failure else []
    if len(failures) == config.processes:
        raise RuntimeError(f"no process could time it: {failures[0]}")
    if lost is not None:
        lost += failures
    readings: dict[str, list[Reading]] = {trial: [] for trial in candidates}
    for index, at in enumerate(ordered):
        for trial, own in readings.items():
            for process, points in enumerate(found):
                if points:
                    own += _readings(measure, trial, dict(at), points[index], str(process))
    return readings


def _series(at: Place, measure: Benchmark) -> dict[str, Any]:
    """All but how far along; of a budget of tokens the batch follows from that."""
    walked = (measure.along, "batch") if TOKENS in at else (measure.along,)
    return {name: value for name, value in at.items() if name not in walked}


@dataclass
class _Process:
    """The work of one process."""

    measure: Benchmark
    prepare: Callable[[str, Place], Callable[[], None]]
    names: list[str]
    places: Sequence[Place]
    left: Sequence[Mapping[str, str]]
    """Of each place who is not to be timed, and why: the first process has found out."""
    config: TimingConfig
    device: torch.device
    _took: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """(series, name) → how far along, and seconds of a call there."""

    def run(self, process: int, tell: Report) -> list[dict[str, Any]]:
        # Some bytes that stay, so that no two processes lay out their memory alike.
        ballast = bytes(random.Random(process).randrange(1 << 16))
        found = []
        for index, at in enumerate(self.places):

            def told(fraction: float, note: str, index: int = index) -> None:
                where = ", ".join(f"{name} {value}" for name, value in self.places[index].items())
                tell((index + fraction) / len(self.places), where)

            point = Point(left=dict(self.left[index]))
            self._time(point, at, process, told)
            found.append(vars(point))
        del ballast
        return found

    def _time(self, point: Point, at: Place, process: int, told: Report) -> None:
        calls: dict[str, Callable[[], None]] = {}
        warm: dict[str, Warm] = {}
        series = freeze(_series(at, self.measure))
        far = float(at[self.measure.along])
        for name in self.names:
            if name in point.left:
                continue
            before, took = self._took.get((series, name), (far, 0.0))
            growth = 1.0 if TOKENS in at else far / before  # no model is quicker than its tokens
            if took * growth > self.config.call_seconds:
                point.left[name] = f"time-out: a call takes {took:.2g} s at {before:g} already"
                continue
            try:
                calls[name] = self.prepare(name, at)
                warm[name] = warm_up(calls[name], self.config, self.device)
            except (RuntimeError, MemoryError, ValueError) as error:
                point.left[name] = _reason(error)
                calls.pop(name, None)
                continue
            point.first[name] = warm[name].first
            self._took[series, name] = far, warm[name].call
            if warm[name].call > self.config.call_seconds:
                point.left[name] = f"time-out: a call takes {warm[name].call:.2g} s"
                del calls[name]
        point.samples = run_blocks(calls, warm, self.config, self.device, process, told)


def _reason(error: Exception) -> str:
    words = in_a_line(error)
    is_memory = isinstance(error, MemoryError) or "alloc" in words or "out of memory" in words
    return f"out of memory: {words}"[:200] if is_memory else words


def _readings(
    measure: Benchmark, trial: str, at: dict[str, Any], point: Point, process: str
) -> list[Reading]:
    """Of one trial at one place in one process: its times beside its reference's."""
    metric = next(iter(measure.quantities))
    unit = measure.quantities[metric].unit
    place: dict[str, Any] = {"at": at, "session": process}
    if trial in point.left or trial not in point.samples:
        reason = point.left.get(trial) or "not timed"
        return [Reading(metric, unit, reason=reason, **place)]
    blocks = min(
        len(point.samples[name]) for name in (trial, REFERENCE, TWIN) if name in point.samples
    )
    times: dict[str, Any] = {
        role: point.samples[role][:blocks] for role in (REFERENCE, TWIN) if role in point.samples
    }
    found = [Reading(metric, unit, samples=point.samples[trial][:blocks], **times, **place)]
    if process == "0":
        found.append(Reading("first_call", "s", point.first[trial], **place))
    return found
