"""Training: one model, one task, one seed, a fixed number of steps.

The same seed on the same machine gives the same losses to the last bit, also when a training was
interrupted and resumed from its checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from ablations.store.record import Measurement
from ablations.tasks.task import Task
from ablations.train.checkpoint import Average, Checkpointer, copied, holding, named, restore
from ablations.train.config import OPTIMIZER, SCHEDULE, TrainConfig
from ablations.train.ddp import ALONE, Devices, Report, dropout_seed
from model.batch import Batch, cross_entropy
from model.layers import evaluating

CURVE_POINTS = 100  # at most, of the training loss
LEAST_GAIN = 0.01  # of the trivial loss: a model that gains less has learned nothing


def compiled(model: nn.Module, config: TrainConfig) -> Callable[[Batch], Tensor]:
    """The model as training calls it: itself, or compiled."""
    return torch.compile(model, dynamic=True) if config.compile else model


def update(
    model: Callable[[Batch], Tensor],
    batches: Sequence[Batch],
    tokens: float,
    optimizer: torch.optim.Optimizer,
    config: TrainConfig,
    in_turn: Callable[[Sequence[Batch]], Iterable[Batch]] = iter,
) -> tuple[Tensor, Tensor]:
    """One step: the loss per label of all micro-batches, and the norm of its gradient."""
    optimizer.zero_grad()
    total = batches[0].labels.new_zeros((), dtype=torch.float32)
    half = config.precision == "bfloat16"
    for batch in in_turn(batches):
        with torch.autocast(batch.labels.device.type, torch.bfloat16, enabled=half):
            logits = model(batch)
            summed = cross_entropy(
                logits, batch.labels, config.label_smoothing, config.label_smoothing_over
            )
        loss = summed / tokens
        loss.backward()
        total += loss.detach()
    every = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.get_total_norm([p.grad for p in every if p.grad is not None])
    if config.clip is not None:
        nn.utils.clip_grads_with_norm_(every, config.clip, norm)
    optimizer.step()
    return total, norm


def validate(
    model: nn.Module,
    task: Task,
    device: torch.device,
    split: str = "valid",
    devices: Devices = ALONE,
) -> float:
    """Unsmoothed nats per label over a whole split; the model's mode is left as it was."""
    batches = task.evaluation_batches(split)  # they may be cached, so not in inference mode
    losses = [0.0] * len(batches)
    with evaluating(model), torch.inference_mode():
        for index in devices.own(len(batches)):
            moved = batches[index].to(device)
            losses[index] = float(cross_entropy(model(moved), moved.labels))
    total = 0.0
    for loss in devices.gathered(losses):  # one by one: `sum` rounds otherwise in later Pythons
        total += loss
    return total / sum(batch.tokens for batch in batches)


@dataclass
class Training:
    """The outcome and measurements of a training."""

    status: str = "ok"
    reason: str | None = None
    measurements: list[Measurement] = field(default_factory=list)

    def add(self, metric: str, unit: str, value: float, step: int, split: str) -> None:
        self.measurements.append(
            Measurement(metric, unit, value, split=split, coordinates={"step": step})
        )

    def losses(self, split: str) -> list[Measurement]:
        return [r for r in self.measurements if (r.metric, r.split) == ("loss", split)]


class Trainer:
    """Everything that changes while a model is trained, so that it can be saved and resumed."""

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        config: TrainConfig,
        seed: int,
        device: torch.device,
        devices: Devices = ALONE,
    ) -> None:
        self.model, self.task, self.config, self.seed = model, task, config, seed
        self.device, self.devices = device, devices
        self.optimizer = OPTIMIZER.build(config.optimizer, parameters=model.parameters())
        self.schedule = SCHEDULE.build(config.schedule, steps=config.steps)
        self.peaks = [group["lr"] for group in self.optimizer.param_groups]
        self.average = Average(model, config.average)
        self.forward = devices.joined(compiled(model, config))
        self.training = Training()
        self.step = 0
        self.recent: list[Tensor] = []  # losses since the last point of the curve
        self.best: dict[str, Tensor] | None = None  # weights
        self.best_loss = math.inf

    def run(self, report: Report, checkpointer: Checkpointer | None) -> Training:
        steps = self.config.steps
        evaluate_at = spread(steps, self.config.evaluations)
        log_at, score_at = spread(steps, CURVE_POINTS), score_step(steps)
        if checkpointer is not None and (saved := checkpointer.load()) is not None:
            self.load_state(*saved)
        else:
            torch.manual_seed(dropout_seed(self.seed))
            self.evaluate()
        self.model.train()
        stream = self.task.steps(self.seed, self.config.budget, self.step)
        for micro_batches in islice(stream, steps - self.step):
            self.step += 1
            norm = self.learn(micro_batches)
            if self.step in log_at and not self.log(norm, report):
                return self.training
            if self.step in evaluate_at:
                self.evaluate()
            if self.step == score_at:
                self.score()
            if checkpointer is not None and checkpointer.is_due() and self.step < steps:
                checkpointer.save(*self.state())
        self.finish()
        return self.training

    def learn(self, micro_batches: Sequence[Batch]) -> Tensor:
        """One step; the norm of its gradient."""
        for group, peak in zip(self.optimizer.param_groups, self.peaks, strict=True):
            group["lr"] = peak * self.schedule.share(self.step)
        tokens = sum(batch.tokens for batch in micro_batches)
        self.devices.begin(self.seed, self.step)
        shares = [self.devices.share(batch).to(self.device) for batch in micro_batches]
        own, in_turn = tokens / self.devices.count, self.devices.in_turn
        loss, norm = update(self.forward, shares, own, self.optimizer, self.config, in_turn)
        self.average.follow(self.step)
        self.recent.append(self.devices.mean(loss))
        return norm

    def log(self, norm: Tensor, report: Report) -> bool:
        """Add a point to the curves; False if the loss is no longer finite."""
        losses = torch.stack(self.recent)
        mean = float(losses.mean())
        self.training.add("loss", "nats/token", mean, self.step, "train")
        self.training.add("gradient_norm", "1", float(norm), self.step, "train")
        self.training.add("lr", "1", self.optimizer.param_groups[0]["lr"], self.step, "train")
        report(self.step / self.config.steps, f"loss {mean:.2f}")
        if not math.isfinite(mean):
            first = self.step - len(losses) + 1 + int((~losses.isfinite()).nonzero()[0])
            self.training.status = "diverged"
            self.training.reason = f"loss {float(losses[first - self.step - 1])} at step {first}"
        self.recent.clear()
        return self.training.status == "ok"

    def evaluate(self) -> None:
        """The validation loss, and the best trained weights so far where they are wanted."""
        with self.average.applied():
            loss = validate(self.model, self.task, self.device, devices=self.devices)
            self.training.add("loss", "nats/token", loss, self.step, "valid")
            if self.config.select == "best" and self.step > 0 and loss < self.best_loss:
                self.best, self.best_loss = copied(self.model), loss

    def score(self) -> None:
        """The loss and scores on test before the end, to show whether they still change.

        Every device computes all scores, so that none waits for another.
        """
        with holding(self.model, self.chosen):
            loss = validate(self.model, self.task, self.device, "test", self.devices)
            try:
                scores, _ = self.task.scores(self.model, "test", self.device)
            except Exception:  # at the end it is reported as the failure of an evaluation
                scores = []
        self.training.add("loss", "nats/token", loss, self.step, "test")
        here: dict[str, float | str] = {"step": self.step}
        self.training.measurements += [
            self.task.measurement(score, "test", here) for score in scores
        ]

    @property
    def chosen(self) -> dict[str, Tensor] | None:
        """The weights that are evaluated, where they are not those of the last step."""
        return self.best or self.average.weights

    def finish(self) -> None:
        """Judge the training and leave the chosen weights in the model."""
        losses = [r.value for r in self.training.losses("valid")]
        trivial = self.task.trivial("valid")["loss"]
        self.training.add("trivial_loss", "nats/token", trivial, 0, "valid")
        if self.chosen is not None:
            restore(self.model, self.chosen)
        untrained, final = (math.nan if x is None else x for x in (losses[0], losses[-1]))
        if self.best is not None:
            final = self.best_loss
        learned = self.training.losses("train")[-1].value
        is_worse = not final <= untrained
        if not math.isfinite(final) or (is_worse and (learned is None or learned >= untrained)):
            self.training.status = "diverged"
            self.training.reason = (
                f"validation loss {final:.3g} at the end, {untrained:.3g} untrained; "
                f"above that since step {self._worse_since(untrained)}"
            )
        elif is_worse:  # though the training loss fell
            self.training.status = "stuck"
            self.training.reason = (
                f"overfitted: validation loss {final:.3g}, {untrained:.3g} untrained"
            )
        elif final >= (1 - LEAST_GAIN) * trivial:
            self.training.status = "stuck"
            self.training.reason = (
                f"validation loss {final:.3g}, no better than the trivial {trivial:.3g}"
            )

    def _worse_since(self, untrained: float) -> int:
        """The step from which all evaluations are above the untrained loss."""
        since = self.config.steps
        for measurement in reversed(self.training.losses("valid")):
            if measurement.value is not None and measurement.value <= untrained:
                break
            since = int(measurement.coordinates["step"])
        return since

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Weights, moments, running means, curves and every generator's state."""
        slots = {
            f"{parameter}/{slot}": value
            for parameter, slots in self.optimizer.state_dict()["state"].items()
            for slot, value in slots.items()
        }
        groups = {
            "model": named(self.model),
            "optimizer": {key: value for key, value in slots.items() if isinstance(value, Tensor)},
            "best": self.best or {},
            "average": self.average.weights or {},
            "recent": {"losses": torch.stack(self.recent)} if self.recent else {},
            "random": _random_states(self.device),
        }
        facts = {
            "step": self.step,
            "measurements": [vars(measurement) for measurement in self.training.measurements],
            "best_loss": None if self.best is None else self.best_loss,
            "optimizer": {
                key: value for key, value in slots.items() if key not in groups["optimizer"]
            },
        }
        return {
            f"{group}:{name}": t for group, all_ in groups.items() for name, t in all_.items()
        }, facts

    def load_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Continue from a saved state."""
        groups: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            group, _, name = key.partition(":")
            groups.setdefault(group, {})[name] = tensor
        restore(self.model, groups["model"])
        optimizer = self.optimizer.state_dict()
        for key, value in {**groups.get("optimizer", {}), **facts["optimizer"]}.items():
            parameter, _, slot = key.partition("/")
            optimizer["state"].setdefault(int(parameter), {})[slot] = value
        self.optimizer.load_state_dict(optimizer)
        if "best" in groups:
            self.best, self.best_loss = groups["best"], facts["best_loss"]
        if self.average.weights is not None:
            restore(self.average.weights, groups["average"])
        if "recent" in groups:
            self.recent = list(groups["recent"]["losses"].to(self.device).unbind())
        self.step = facts["step"]
        self.training.measurements = [
            Measurement(**measurement) for measurement in facts["measurements"]
        ]
        torch.set_rng_state(groups["random"]["cpu"])
        if self.device.type != "cpu":
            with torch.accelerator.device_index(self.device.index):
                module = torch.get_device_module(self.device)
                module.set_rng_state(groups["random"]["device"])


def train(
    model: nn.Module,
    task: Task,
    config: TrainConfig,
    seed: int,
    device: torch.device,
    report: Report,
    checkpointer: Checkpointer | None = None,
    devices: Devices = ALONE,
) -> Training:
    """Train the model in place, from its checkpoint or from the start."""
    return Trainer(model, task, config, seed, device, devices).run(report, checkpointer)


def score_step(steps: int) -> int | None:
    """Two thirds of the way; None where that is the end."""
    at = math.ceil(2 * steps / 3)
    return at if at < steps else None


def spread(steps: int, times: int) -> set[int]:
    """`times` steps, evenly spread, the last one included."""
    return {math.ceil(steps * k / times) for k in range(1, times + 1)}


def _random_states(device: torch.device) -> dict[str, Tensor]:
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        with torch.accelerator.device_index(device.index):
            states["device"] = torch.get_device_module(device).get_rng_state()
    return states
