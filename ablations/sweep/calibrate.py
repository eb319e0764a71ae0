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
