"""How long a trial takes in each way that it can share a device, by steps that workers take."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ablations.plan.wanted import Want
from ablations.plan.ways import Stopwatch, Way
from ablations.store.frozen import freeze
from ablations.sweep.launch import Job, Launcher, Outcome, Report
from ablations.tasks.cache import load_task

if TYPE_CHECKING:
    import torch

_LIMIT = 300.0  # seconds for the steps of one worker
_SPAN = 3.0  # seconds of steps: workers side by side begin within a small part of that
_WARMUP = 3  # calls: the first pay for much that later ones find done
_LEAST = 3  # calls that are timed, however long they take


def stopwatch(
    launcher: Launcher, device: str, devices: int, imports: Sequence[str], span: float = _SPAN
) -> Stopwatch:
    """Steps are taken by as many workers as the way has, on all devices at once."""

    def seconds(want: Want, way: Way) -> float | None:
        share = 0.0 if device.partition(":")[0] == "cpu" else 1.0 / way.workers
        jobs = [f"{way} of {want.trial}, {number}" for number in range(way.workers * devices)]
        payload = {"config": want.config, "packed": way.packed, "span": span}
        payload |= {"device": device, "imports": list(imports)}
        for job in jobs:
            call = f"{__name__}:{time_way.__name__}"
            launcher.submit(Job(job, call, payload, seconds=_LIMIT, accelerators=share))
        ended = {event.job: event for event in launcher.events() if isinstance(event, Outcome)}
        each = [ended[job].value for job in jobs]
        return None if None in each else sum(each) / len(each) / way.workers

    return seconds


def time_way(payload: dict[str, Any], _report: Report) -> float:
    """What a worker does for the stopwatch."""
    import torch

    for module in payload["imports"]:
        importlib.import_module(module)
    device = torch.device(payload["device"])
    return seconds_a_trial(payload["config"], payload["packed"], device, payload["span"])


def seconds_a_trial(
    config: dict[str, Any], packed: int, device: torch.device, span: float
) -> float:
    """What a worker spends on one of so many trials that it trains as one, none of it compiled."""
    from ablations.train.loop import Trainer
    from ablations.train.pack import Pack
    from ablations.train.settings import TrainConfig
    from ablations.train.validation import validate
    from model.build import build

    task = load_task(freeze(config["task"]))
    settings = replace(TrainConfig(**config["train"]), compile=False)
    seeds = list(range(packed))
    sizes = task.source_size, task.target_size
    models = [build(config["model"], *sizes, seed).to(device) for seed in seeds]
    stream = zip(*(task.steps(seed, settings.budget) for seed in seeds), strict=True)
    step: Callable[[], object]
    look: Callable[[], object]
    if packed > 1:
        pack = Pack(models, task, settings, seeds, device)
        pack.step = 1
        step, look = lambda: pack.learn(next(stream)), pack.validate
    else:
        trainer = Trainer(models[0], task, settings, seeds[0], device)
        trainer.step = 1
        step = lambda: trainer.learn(next(stream)[0])  # noqa: E731
        look = lambda: validate(models[0], task, device)  # noqa: E731
    looks = 1 + min(settings.evaluations, settings.steps)  # the first before any step
    spent = settings.steps * mean_seconds(step, device, span)
    return (spent + looks * mean_seconds(look, device, span / 3)) / packed


def mean_seconds(call: Callable[[], object], device: torch.device, span: float) -> float:
    """Of calls one after another for so long, the first ones left out."""
    from ablations.measure.timing import synchronise

    for _ in range(_WARMUP):
        call()
    synchronise(device)
    calls, begun = 0, time.perf_counter()
    while True:
        call()
        synchronise(device)
        calls, passed = calls + 1, time.perf_counter() - begun
        if calls >= _LEAST and passed >= span:
            return passed / calls
