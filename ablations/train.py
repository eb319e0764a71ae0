"""Training: one model, one task, one seed, a fixed number of steps.

The same seed on the same machine gives the same losses to the last bit.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ablations.optimise import OPTIMISER, SCHEDULE
from ablations.record import Reading
from ablations.tasks.task import Task
from model.batch import Batch
from model.config import ConfigError
from model.family import choice
from model.loss import cross_entropy

CURVE_POINTS = 100  # at most, of the training loss


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a trial is trained. All of it is part of the trial's identity."""

    steps: int = 1000
    batch_size: int = 64
    """Sequences in a batch."""
    optimiser: dict[str, Any] = choice(OPTIMISER, "adam")
    schedule: dict[str, Any] = choice(SCHEDULE, "linear")
    clip: float | None = 1.0
    """The largest norm of the gradient; null for any."""
    smoothing: float = 0.0
    """Label smoothing of the training loss. Validation is never smoothed."""
    smoothing_over: Literal["all", "other"] = "all"
    """Which words share it: all, or all but the right one."""
    evaluations: int = 5
    """How often the validation loss is taken, the last time at the end."""

    def __post_init__(self) -> None:
        problems = [
            f"{name}={getattr(self, name)}: must be at least 1"
            for name in ("steps", "batch_size", "evaluations")
            if getattr(self, name) < 1
        ]
        if not 0 <= self.smoothing < 1:
            problems.append(f"smoothing={self.smoothing}: must be from 0 to below 1")
        if self.clip is not None and self.clip <= 0:
            problems.append(f"clip={self.clip}: must be positive, or null for none")
        if problems:
            raise ConfigError(problems)


@dataclass
class Training:
    """How a training went."""

    status: str = "ok"
    reason: str | None = None
    readings: list[Reading] = field(default_factory=list)

    def note(self, metric: str, unit: str, value: float, step: int, split: str) -> None:
        self.readings.append(Reading(metric, unit, value, split=split, at={"step": step}))


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig,
    seed: int,
    device: torch.device,
    report: Callable[[float, str], None],
) -> Training:
    """Train the model in place."""
    torch.manual_seed(_stream(seed, "dropout"))
    optimiser = OPTIMISER.build(config.optimiser, parameters=model.parameters())
    schedule = SCHEDULE.build(config.schedule, steps=config.steps)
    peaks = [group["lr"] for group in optimiser.param_groups]
    evaluate_at = {
        round(config.steps * k / config.evaluations) for k in range(config.evaluations + 1)
    }
    note_at = {math.ceil(config.steps * k / CURVE_POINTS) for k in range(1, CURVE_POINTS + 1)}
    training = Training()
    untrained = validate(model, task, device)
    training.note("loss", "nats/token", untrained, 0, "valid")
    model.train()
    recent: list[Tensor] = []
    for step, batch in zip(
        range(1, config.steps + 1), task.train_batches(seed, config.batch_size), strict=False
    ):
        for group, peak in zip(optimiser.param_groups, peaks, strict=True):
            group["lr"] = peak * schedule.share(step)
        loss, norm = update(model, batch.to(device), batch.tokens, optimiser, config)
        recent.append(loss)
        if step in note_at:
            mean = float(torch.stack(recent).mean())
            recent.clear()
            training.note("loss", "nats/token", mean, step, "train")
            training.note("gradient_norm", "1", float(norm), step, "train")
            training.note("rate", "1", optimiser.param_groups[0]["lr"], step, "train")
            report(step / config.steps, f"loss {mean:.2f}")
            if not math.isfinite(mean):
                training.status, training.reason = "diverged", f"loss {mean} by step {step}"
                return training
        if step in evaluate_at:
            valid = validate(model, task, device)
            training.note("loss", "nats/token", valid, step, "valid")
    _judge(training, untrained, valid, task.trivial_loss())
    return training


def update(
    model: nn.Module,
    batch: Batch,
    tokens: int,
    optimiser: torch.optim.Optimizer,
    config: TrainConfig,
) -> tuple[Tensor, Tensor]:
    """One step: the loss per label of the whole batch, and the norm of its gradient."""
    logits = model(batch)
    loss = cross_entropy(logits, batch.labels, config.smoothing, config.smoothing_over) / tokens
    optimiser.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.clip or math.inf)
    optimiser.step()
    return loss.detach(), norm


@torch.inference_mode()
def validate(model: nn.Module, task: Task, device: torch.device, split: str = "valid") -> float:
    """Unsmoothed nats per label over a whole split; the model's mode is left as it was."""
    was_training = model.training
    model.eval()
    total, tokens = 0.0, 0
    for batch in task.evaluation_batches(split):
        moved = batch.to(device)
        total += float(cross_entropy(model(moved), moved.labels))
        tokens += batch.tokens
    model.train(was_training)
    return total / tokens


def _judge(training: Training, untrained: float, final: float, trivial: float) -> None:
    """Diverged: worse than untrained. Stuck: no better than knowing how frequent each label is."""
    training.note("trivial_loss", "nats/token", trivial, 0, "valid")
    if not math.isfinite(final) or final > untrained:
        training.status = "diverged"
        training.reason = f"validation loss {final:.3g} at the end, {untrained:.3g} untrained"
    elif final >= trivial:
        training.status = "stuck"
        training.reason = f"validation loss {final:.3g}, no better than the trivial {trivial:.3g}"


def _stream(seed: int, name: str) -> int:
    """A seed for one use of randomness, apart from all others."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{name}".encode()).digest()[:8], "big") >> 1


def pick_device(word: str | None) -> torch.device:
    """The named device, or the accelerator when there is one, or the CPU."""
    if word is None:
        found = torch.accelerator.current_accelerator(check_available=True)
        return found or torch.device("cpu")
    try:
        device = torch.device(word)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError([f"--device {word}: not usable here ({reason})"]) from None
    return device
