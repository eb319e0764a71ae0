"""How long trainings will take here, by steps that are taken in workers.

The driver allocates no model: one that is too large costs its own worker, and nothing else.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ablations.plan.estimate import Clock
from ablations.plan.wanted import Want
from ablations.store.frozen import freeze
from ablations.sweep.launch import Job, Launcher, Outcome, Report
from ablations.tasks.cache import load_task

if TYPE_CHECKING:
    import torch

    from ablations.plan.speed import Speed, SpeedPoint

_LIMIT = 120.0  # seconds for the steps of one trial


def clock(launcher: Launcher, device: str, imports: Sequence[str]) -> Clock:
    """A clock whose steps are taken in workers of this launcher."""

    def seconds(wants: Sequence[Want]) -> list[float | None]:
        jobs = [f"steps of {want.trial}" for want in wants]
        for job, want in zip(jobs, wants, strict=True):
            payload = {"config": want.config, "device": device, "imports": list(imports)}
            call = f"{__name__}:{time_training.__name__}"
            launcher.submit(Job(job, call, payload, seconds=_LIMIT))
        ended = {event.job: event for event in launcher.events() if isinstance(event, Outcome)}
        return [ended[job].value for job in jobs]

    return seconds


SIZES = ((32, 384), (96, 1152))  # width, and tokens of a batch
TRIED = ({"name": "transformer", "n_heads": 4, "max_len": 16}, {"name": "recurrent"})
_LENGTH = 12
_WORDS = 40


def counted_clock(device: torch.device) -> Clock:
    """A clock that takes no step of these trials: by their counted work, and by what a few steps of
    small models took on this machine."""

    def seconds(wants: Sequence[Want]) -> list[float | None]:
        import torch

        from ablations.plan.speed import speed_of
        from ablations.train.device import device_name

        place = f"{device_name(device)}, torch {torch.__version__}, 1 thread"
        speed = speed_of(place, lambda: measure_speed(device))
        return [speed.seconds(want) for want in wants]

    return seconds


def measure_speed(device: torch.device) -> Speed:
    """Steps of small models of each kind, on one thread, as workers have it."""
    import torch

    from ablations.plan.speed import Speed

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return Speed([_try(model, *size, device) for model in TRIED for size in SIZES])
    finally:
        torch.set_num_threads(before)


def _try(model: dict[str, Any], d_model: int, tokens: int, device: torch.device) -> SpeedPoint:
    import torch

    from ablations.plan.speed import SpeedPoint, kind_of
    from ablations.train.optimiser import OPTIMISER
    from ablations.train.settings import TrainConfig
    from ablations.train.step import update
    from model.batch import Batch
    from model.build import build, resolve
    from model.count import flops_per_token

    written = resolve({**model, "kind": "encoder_decoder", "d_model": d_model, "depth": 2})
    with torch.device("meta"):
        empty = build(written, _WORDS, _WORDS, seed=None)
        flops = tokens * flops_per_token(empty, _LENGTH, _LENGTH)
    built = build(written, _WORDS, _WORDS, seed=0).to(device)
    settings = TrainConfig()
    optimiser = OPTIMISER.build(settings.optimiser, parameters=built.parameters())
    words = torch.arange(tokens // 2, device=device).view(-1, _LENGTH) % (_WORDS - 3) + 3
    batch = Batch(labels=words, inputs=words, source=words)
    # One thread's own time: whatever else the machine does meanwhile does not count.
    clock = time.thread_time if device.type == "cpu" else time.perf_counter
    step = quickest(
        lambda: update(built, [batch], batch.tokens, optimiser, settings), device, clock
    )
    return SpeedPoint(kind_of(written), flops, step / flops)


def time_training(payload: dict[str, Any], _report: Report) -> float:
    """What a worker does for the clock."""
    import torch

    for module in payload["imports"]:
        importlib.import_module(module)
    return seconds_to_train(payload["config"], torch.device(payload["device"]))


def seconds_to_train(config: dict[str, Any], device: torch.device) -> float:
    """What training this trial takes, by a step and a look at validation here and now."""
    import torch

    from ablations.train.optimiser import OPTIMISER
    from ablations.train.settings import TrainConfig
    from ablations.train.step import update
    from model.build import build
    from model.evaluating import evaluating
    from model.loss import cross_entropy

    task = load_task(freeze(config["task"]))
    settings = TrainConfig(**config["train"])
    model = build(config["model"], task.source_size, task.target_size, seed=0).to(device)
    optimiser = OPTIMISER.build(settings.optimiser, parameters=model.parameters())
    parts = next(task.steps(0, settings.budget))
    tokens = sum(part.tokens for part in parts)
    moved = [part.to(device) for part in parts]
    step = quickest(lambda: update(model, moved, tokens, optimiser, settings), device)
    batches = task.evaluation_batches("valid")
    asked = batches[len(batches) // 2].to(device)  # of middling length
    with evaluating(model), torch.inference_mode():
        look = quickest(lambda: cross_entropy(model(asked), asked.labels), device) * len(batches)
    looks = 1 + min(settings.evaluations, settings.steps)  # the first before any step
    return settings.steps * step + looks * look


def quickest(
    call: Callable[[], object],
    device: torch.device,
    clock: Callable[[], float] | None = None,
) -> float:
    """Seconds of the quickest of three calls: the first pays for much that later ones find done."""
    from ablations.measure.timing import synchronise

    now = clock or time.perf_counter
    took = []
    for _ in range(3):
        begun = now()
        call()
        synchronise(device)
        took.append(now() - begun)
    return min(took)
