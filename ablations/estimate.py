"""Estimates the time and memory of a plan on this machine.

Speed comes from finished trials of the same task, or else from timing a small model.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from ablations.expand import Trial
from ablations.missing import Missing
from ablations.plan import Plan
from ablations.store.files import read_file, write_atomic
from ablations.store.identity import canonical_json
from ablations.store.record import WHOLE
from ablations.store.results import Results
from ablations.store.schema import RecordError

if TYPE_CHECKING:
    import torch

_FLOAT = 4  # bytes
PROCESS = 1 << 30  # bytes: torch, and the data of a task
_BESIDES = 2.0  # time of training / time of its forward and backward passes
BEFORE = 0.9  # seconds of a trial outside its steps: process, data, final scores, record
FRESH = 3.0  # seconds until a new process has loaded torch
_STATES = 3  # numbers kept for each weight: itself and Adam's two moments
LENGTH = 128  # tokens of a sequence in the steps that say how quick an accelerator is
UTILISATION = 0.1, 0.4
PEAKS = {"RTX 4090": 165e12, "A100": 312e12, "H100 SXM": 989e12}
"""Dense bfloat16 operations a second, as their makers publish them."""


def operations(trial: Trial) -> float:
    """About how many all forward passes of training take: two for each weight and token. In an
    encoder-decoder a token uses half of the weights."""
    return trial.work * (1 if trial.config["model"].get("kind") == "encoder_decoder" else 2)


def seconds_each(
    trials: Sequence[Trial],
    plan: Plan,
    results: Results,
    device: torch.device,
    rate: Callable[[Trial], float | None],
) -> list[float | None]:
    """Seconds of each trial; None if they are unknown or the model does not fit.

    `rate` gives the seconds of an operation if no trial of the task has finished, once a task.
    """
    known: dict[str, float | None] = {**_rates(plan, results, device)}

    def seconds(trial: Trial) -> float | None:
        if not trial.trained:
            return BEFORE
        if not may_fit(trial, device.type):
            return None
        task = trial.config["task"]["name"]
        if task not in known:
            known[task] = rate(trial)
        per = known[task]
        return None if per is None else BEFORE + per * operations(trial)

    return [seconds(trial) for trial in trials]


def _rates(plan: Plan, results: Results, device: torch.device) -> dict[str, float]:
    """Task → seconds of an operation, by the finished trials that this device trained."""
    from ablations.train.device import device_name

    seconds: dict[str, float] = defaultdict(float)
    done: dict[str, float] = defaultdict(float)
    for trial in plan.trials.values() if results.trials.is_dir() else ():
        with contextlib.suppress(RecordError):  # an unusable record will be run again
            record = results.read(trial.id)
            if record is None or record.status not in WHOLE or not trial.trained:
                continue
            env, task = record.env, trial.config["task"]["name"]
            # Trials on several devices or in packs have other speeds.
            is_alone = env.get("devices", 1) == 1 and not env.get("packed")
            if is_alone and env.get("device") == device_name(device) and env.get("seconds"):
                seconds[task] += env["seconds"]
                done[task] += operations(trial)
    return {task: taken / done[task] for task, taken in seconds.items()}


def rate_of(device: torch.device, trial: Trial) -> float | None:
    """Seconds of an operation on this CPU, or of the trial on an accelerator."""
    return _rate_here() if device.type == "cpu" else _rate_on(device, trial)


@cache
def _rate_here() -> float:
    """Seconds of an operation on this CPU, cached on disk."""
    import torch

    file = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ablations/speed.json").expanduser()
    machine = f"{platform.node()} {platform.machine()} torch {torch.__version__}"
    known: dict[str, float] = {}
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        known = dict(json.loads(read_file(file)))
        return float(known[machine])
    rate = _measured_rate()
    with contextlib.suppress(OSError):
        write_atomic(file, json.dumps({**known, machine: rate}))
    return rate


def _rate_on(device: torch.device, trial: Trial) -> float | None:
    """By a few steps of the trial on random tokens, not compiled; None where it does not fit."""
    from ablations.benchmarks.session import TimingConfig, warm_up
    from ablations.benchmarks.throughput import Throughput
    from ablations.tasks.task import load_task

    train = {**trial.config["train"], "compile": False}
    tokens = train["batch_tokens"] // train["micro_batches"]
    length = min(LENGTH, trial.config["model"].get("max_len", LENGTH) - 1)
    at = {"length": length, "batch": max(1, tokens // length), "pass": "training"}
    config, task = {**trial.config, "train": train}, load_task(trial.sections["task"])
    try:
        step = Throughput().prepare(config, task, device, at)
        seconds = warm_up(step, TimingConfig(), device).call
    except RuntimeError:  # too little memory, or no such kernel
        return None
    return seconds * train["micro_batches"] * train["steps"] / operations(trial)


def projected_hours(trials: Sequence[Trial]) -> dict[str, tuple[float, float]]:
    """Device → fewest and most hours for these trials, from counted work alone.

    Training does three times the work of the forward pass. A device reaches a tenth to four tenths
    of its published peak: small models wait for memory and for their kernels to be launched.
    """
    work = 3 * sum(operations(trial) for trial in trials if trial.trained)
    least, most = UTILISATION
    hours = {name: work / peak / 3600 for name, peak in PEAKS.items()}
    return {name: (each / most, each / least) for name, each in hours.items()}


def _measured_rate() -> float:
    """Time three steps of a small transformer on one thread; the quickest counts."""
    import torch
    from torch.utils.benchmark import Timer

    from model.batch import Batch
    from model.build import build
    from model.flops import parameters

    model = build({"name": "transformer", "d_model": 64, "max_len": 32}, None, 64, seed=0)
    tokens = torch.randint(64, (32, 24), generator=torch.Generator().manual_seed(0))

    def step() -> None:
        logits = model(Batch(labels=tokens, inputs=tokens))
        torch.nn.functional.cross_entropy(logits.flatten(0, -2), tokens.flatten()).backward()

    timer = Timer("step()", globals={"step": step})
    seconds = min(timer.timeit(1).mean for _ in range(3))
    return _BESIDES * seconds / (2 * parameters(model) * tokens.numel())


def may_fit(trial: Trial, device_type: str) -> bool:
    """Whether this machine's memory holds the weights and their gradients."""
    needed = 2 * trial.parameters * _FLOAT
    return device_type != "cpu" or needed <= psutil.virtual_memory().total


def memory_of(trial: Trial, device: str, devices: int = 1) -> int:
    """About how many bytes of the machine's memory a trial takes; an accelerator has its own."""
    weights = (1 + _STATES) * trial.parameters * _FLOAT  # with their gradients
    kept = trial.kept_bytes if trial.trained and device == "cpu" else 0.0
    return devices * (PROCESS + weights) + round(kept)


def side_by_side(each: Sequence[float], at_once: int) -> float:
    """Seconds of these trials, `at_once` at a time; at least those of the longest."""
    return max(sum(each) / at_once, max(each, default=0.0))


def seconds_timing(plan: Plan, lacks: Missing) -> float:
    """Seconds of all timing sessions if every call is quick; slow calls take longer."""
    from ablations.benchmarks.session import TimingConfig

    config = TimingConfig(**plan.profile.timing)
    sessions = Counter(
        (pair, canonical_json(at)) for timings in lacks.timings.values() for pair in timings
        for at in timings[pair]
    )  # fmt: skip
    a_candidate = config.processes * (config.warmup + config.blocks) * config.sample_seconds
    jobs = {pair for timings in lacks.timings.values() for pair in timings}
    return len(jobs) * config.processes * FRESH + sum(
        min(config.cap_seconds, (number + 2) * a_candidate) for number in sessions.values()
    )


def in_bytes(number: float) -> str:
    """`820 kB`, `3.2 MB`, `14 GB`."""
    for unit in ("kB", "MB", "GB"):
        number /= 1000
        if number < 1000 or unit == "GB":
            break
    return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
