"""What a plan will cost on this machine: time from records or from steps, disk from sizes.

No model is allocated here: a clock that is handed in takes the steps, in processes of its own.
"""

from __future__ import annotations

import contextlib
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ablations.plan.missing import Missing, missing
from ablations.plan.wanted import Plan, Want
from ablations.store.frozen import freeze
from ablations.store.record import WHOLE
from ablations.store.results import Results
from ablations.store.schema import RecordError

if TYPE_CHECKING:
    import torch

Clock = Callable[[Sequence[Want]], list[float | None]]
"""Steps of these are taken here and now: how long each will train. None: no step could be taken."""

DAY = 86_400.0
RECORD = 60_000  # bytes: a learning curve of some hundred points
_FLOAT = 4  # bytes
PROCESS = 1 << 30  # bytes: torch, and the data of a task
_STATES = 3  # what a training in progress keeps of each weight: itself and Adam's two moments
_PESSIMIST = 1e9  # operations a second that any core reaches, even on tiny matrices


@dataclass
class Times:
    """How long trainings take, as far as that is known."""

    each: dict[str, float | None] = field(default_factory=dict)
    """By settings, which seeds share; None: too large to try here."""
    rates: dict[str, float] = field(default_factory=dict)
    """By the name of a task, whatever its options: seconds for a unit of work."""

    def tell(self, want: Want) -> bool:
        return str(want.frozen) in self.each or _task(want) in self.rates

    def learn(self, want: Want, seconds: float | None) -> None:
        self.each[str(want.frozen)] = seconds
        if seconds is not None:
            self.rates.setdefault(_task(want), seconds / want.work)

    def of(self, want: Want) -> float | None:
        if str(want.frozen) in self.each:
            return self.each[str(want.frozen)]
        return self.rates[_task(want)] * want.work


def _task(want: Want) -> str:
    return want.config["task"]["name"]


def known_times(plan: Plan, results: Results, device: torch.device) -> Times:
    """What is known without a step: by records made on this device, and by what memory holds."""
    from ablations.train.device import device_name

    times = Times()
    taken: dict[str, list[tuple[float, float]]] = {}  # of a task: seconds and work
    here = device_name(device), str(device)  # a trial that failed may name the second alone
    for want in plan.wanted.values():
        if not may_fit(want, device.type):
            times.each[str(want.frozen)] = None
            continue
        with contextlib.suppress(RecordError):  # what it says is lost, and it will be run again
            head = results.head(want.trial)
            if head is None or head.env.get("device") not in here:
                continue
            if head.status == "oom":
                times.each.setdefault(str(want.frozen), None)
                continue
            # What had several devices, or shared one, says little of the time on one alone.
            if head.env.get("devices", 1) > 1 or device.type != "cpu" or head.env.get("packed"):
                continue
            if want.trained and head.status in WHOLE and (seconds := head.env.get("seconds")):
                times.each[str(want.frozen)] = float(seconds)
                taken.setdefault(_task(want), []).append((float(seconds), want.work))
    for task, pairs in taken.items():
        seconds, work = map(sum, zip(*pairs, strict=True))
        times.rates[task] = seconds / work
    return times


def may_fit(want: Want, device_type: str) -> bool:
    """Whether this machine's memory holds the weights and their gradients."""
    needed = 2 * want.parameters * _FLOAT
    return device_type != "cpu" or needed <= psutil.virtual_memory().total


def memory_of(want: Want, device: str, devices: int = 1) -> int:
    """Bytes of a machine's memory that a trial takes, about; an accelerator has its own.

    Each of several devices has the weights, and its own part of what a step keeps.
    """
    weights = (1 + _STATES) * want.parameters * _FLOAT  # with their gradients
    kept = want.kept_bytes if want.trained and device == "cpu" else 0.0
    return devices * (PROCESS + weights) + round(kept)


def seconds_each(
    wants: Sequence[Want], clock: Clock, most: int, known: Times | None = None
) -> list[float | None]:
    """How long each trial trains; None: too large to try here.

    Beyond `most` that the clock is asked for, sizes on one task are compared.
    """
    times = known or Times()
    first: dict[str, Want] = {}
    for want in wants:
        if want.trained:
            first.setdefault(str(want.frozen), want)
    unknown = [want for want in first.values() if not times.tell(want)]
    for want, seconds in zip(unknown[:most], clock(unknown[:most]), strict=True):
        times.learn(want, seconds)
    for want in unknown[most:]:
        if not times.tell(want):
            times.learn(want, *clock([want]))
    return [times.of(want) if want.trained else 0.0 for want in wants]


def side_by_side(each: Collection[float], at_once: int) -> float:
    """How long trials take together, so many at once: no less than the longest of them."""
    return max(sum(each) / at_once, max(each, default=0.0))


def days_ahead(
    plan: Plan,
    results: Results,
    rerun: str | None,
    device: torch.device,
    at_once: int,
    clock: Clock,
) -> float:
    """Seconds that the rest of a plan takes where that is a day or more; 0 where it is less.

    Nothing is read or measured where even a slow machine needs no day. What is too large to be
    tried takes no time.
    """

    def may_take_days(wants: Iterable[Want]) -> bool:
        # Two operations forward and four backward a weight; evaluations are few beside them.
        return side_by_side([6 * want.work / _PESSIMIST for want in wants], at_once) >= DAY

    if not may_take_days(plan.wanted.values()):
        return 0.0
    rest = missing(plan, results, rerun).train
    if not may_take_days(rest):
        return 0.0
    largest_first = sorted(rest, key=lambda want: -want.work)
    each = seconds_each(largest_first, clock, 0, known_times(plan, results, device))
    seconds = side_by_side([took for took in each if took is not None], at_once)
    return seconds if seconds >= DAY else 0.0


def seconds_timing(plan: Plan, lacks: Missing) -> float:
    """How long the timing sessions take, one after another, where a call is shorter than a sample.

    A longer call takes longer, up to the cap of its point.
    """
    from ablations.measure.timing import TimingConfig

    config = TimingConfig(**plan.profile.timing)
    sessions = Counter(
        (pair, freeze(at)) for timings in lacks.timings.values() for pair in timings
        for at in timings[pair]
    )  # fmt: skip
    a_candidate = config.processes * (config.warmup + config.blocks) * config.sample_seconds
    return sum(min(config.cap_seconds, (number + 2) * a_candidate) for number in sessions.values())


def disk(wants: Iterable[Want], results: Results, jobs: int) -> int:
    """Bytes that these trials will take: checkpoints, records, and trainings in progress."""
    each = list(wants)
    sizes = [want.parameters * _FLOAT for want in each if want.trained]
    records = len(each) * _typical_record(results)
    # Each has one checkpoint before its last.
    in_progress = 2 * _STATES * sum(sorted(sizes)[-jobs:])
    return sum(sizes) + records + in_progress


def _typical_record(results: Results) -> int:
    sizes = [path.lstat().st_size for path in results.trials.glob("*.json")]
    return sum(sizes) // len(sizes) if sizes else RECORD


def free_disk(folder: Path) -> int:
    """Bytes that are free where a folder is, or will be."""
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    return shutil.disk_usage(there).free


def in_bytes(number: float) -> str:
    """A size as one would say it: 820 kB, 3.2 MB, 14 GB."""
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 1000 or unit == "GB":
            break
    return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
