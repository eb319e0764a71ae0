"""What a plan will cost on this machine: time from measured steps, disk from sizes."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.plan.missing import Missing, missing
from ablations.plan.wanted import Plan, Want
from ablations.store.frozen import freeze
from ablations.store.results import Results
from ablations.tasks.cache import load_task

if TYPE_CHECKING:
    import torch

DAY = 86_400.0
RECORD = 60_000  # bytes: a learning curve of some hundred points
_FLOAT = 4  # bytes
_STATES = 3  # what a training in progress keeps of each weight: itself and Adam's two moments
_PESSIMIST = 1e9  # operations a second that any core reaches, even on tiny matrices


def seconds_to_train(want: Want, device: torch.device) -> float:
    """What training this trial takes, by a step and a look at validation here and now."""
    import torch

    from ablations.train.optimiser import OPTIMISER
    from ablations.train.settings import TrainConfig
    from ablations.train.step import update
    from model.build import build
    from model.loss import cross_entropy

    task = load_task(freeze(want.config["task"]))
    settings = TrainConfig(**want.config["train"])
    torch.set_num_threads(1)  # as in a worker
    with torch.random.fork_rng(devices=[]):
        model = build(want.config["model"], task.source_size, task.target_size, seed=0).to(device)
        optimiser = OPTIMISER.build(settings.optimiser, parameters=model.parameters())
        parts = next(task.steps(0, settings.budget))
        tokens = sum(part.tokens for part in parts)
        moved = [part.to(device) for part in parts]
        step = quickest(lambda: update(model, moved, tokens, optimiser, settings), device)
    batches = task.evaluation_batches("valid")
    asked = batches[len(batches) // 2].to(device)  # of middling length
    model.eval()
    with torch.inference_mode():
        look = quickest(lambda: cross_entropy(model(asked), asked.labels), device) * len(batches)
    looks = 1 + min(settings.evaluations, settings.steps)  # the first before any step
    return settings.steps * step + looks * look


def quickest(call: Callable[[], object], device: torch.device) -> float:
    """Seconds of the quickest of three calls: the first pays for much that later ones find done."""
    from ablations.measure.timing import synchronise

    took = []
    for _ in range(3):
        begun = time.perf_counter()
        call()
        synchronise(device)
        took.append(time.perf_counter() - begun)
    return min(took)


def seconds_each(wants: Sequence[Want], device: torch.device, most: int) -> list[float]:
    """How long each trial trains. Beyond `most` measured ones, sizes on one task are compared."""
    measured: dict[str, float] = {}  # by settings, which seeds share
    rates: dict[str, float] = {}  # of a task: seconds for a unit of work
    for want in wants:
        settings = str(want.frozen)
        task = want.frozen["task"]
        if settings in measured or (task in rates and len(measured) >= most):
            continue
        measured[settings] = seconds_to_train(want, device)
        rates.setdefault(task, measured[settings] / want.work)
    return [
        measured.get(str(want.frozen), rates[want.frozen["task"]] * want.work) for want in wants
    ]


def side_by_side(each: Collection[float], at_once: int) -> float:
    """How long trials take together, so many at once: no less than the longest of them."""
    return max(sum(each) / at_once, max(each, default=0.0))


def days_ahead(
    plan: Plan, results: Results, rerun: str | None, device: torch.device, at_once: int
) -> float:
    """Seconds that the rest of a plan takes where that is a day or more; 0 where it is less.

    Nothing is read or measured where even a slow machine needs no day.
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
    seconds = side_by_side(seconds_each(largest_first, device, most=0), at_once)
    return seconds if seconds >= DAY else 0.0


def seconds_timing(plan: Plan, lacks: Missing) -> float:
    """How long the timing sessions take, one after another, where a call is shorter than a sample.

    A longer call takes longer, up to the cap of its session.
    """
    from ablations.measure.timing import TimingConfig

    config = TimingConfig(**plan.profile.timing)
    sessions = Counter(pair for pairs in lacks.timings.values() for pair in pairs)
    a_candidate = (config.warmup + config.blocks) * config.sample_seconds
    each = [min(config.cap_seconds, (number + 2) * a_candidate) for number in sessions.values()]
    return len(config.shapes) * sum(each)


def disk(wants: Iterable[Want], results: Results, jobs: int) -> int:
    """Bytes that these trials will take: checkpoints, records, and trainings in progress."""
    sizes = [want.parameters * _FLOAT for want in wants]
    records = len(sizes) * _typical_record(results)
    # Each has one checkpoint before its last.
    in_progress = 2 * _STATES * sum(sorted(sizes)[-jobs:])
    return sum(sizes) + records + in_progress


def _typical_record(results: Results) -> int:
    sizes = [path.stat().st_size for path in results.trials.glob("*.json")]
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
