"""How weights follow their gradients, and how the learning rate moves over training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from ablations.tasks.task import Budget
from model.config import ConfigError, Registry, choice

OPTIMIZER = Registry("optimizer")
SCHEDULE = Registry("schedule")

_POSITIVE = (lambda x: x > 0, "must be positive")
_NOT_NEGATIVE = (lambda x: x >= 0, "must not be negative")
_BELOW_ONE = (lambda x: 0 <= x < 1, "must be from 0 to below 1")
_SHARE = (lambda x: 0 <= x <= 1, "must be from 0 to 1")
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "lr": _POSITIVE, "eps": _POSITIVE, "beta1": _BELOW_ONE, "beta2": _BELOW_ONE,
    "momentum": _BELOW_ONE, "weight_decay": _NOT_NEGATIVE, "warmup": _NOT_NEGATIVE,
    "floor": _SHARE,
}  # fmt: skip


class Checked:
    """Options of one name have one range in every optimizer and schedule."""

    def __post_init__(self) -> None:
        problems = [
            f"{name}={value}: {RANGES[name][1]}"
            for name, value in vars(self).items()
            if name in RANGES and not RANGES[name][0](value)
        ]
        if problems:
            raise ConfigError(problems)


@OPTIMIZER.register("adam")
class Adam(torch.optim.Adam):
    """Steps scaled by running moments of the gradient (Kingma & Ba 2015)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        lr: float = 1e-3
        beta1: float = 0.9
        beta2: float = 0.98
        eps: float = 1e-9

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        betas = (config.beta1, config.beta2)
        super().__init__(parameters, lr=config.lr, betas=betas, eps=config.eps, fused=True)


@OPTIMIZER.register("adamw")
class AdamW(torch.optim.AdamW):
    """Adam, and weights shrink by lr · weight_decay (Loshchilov & Hutter 2019)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Adam.Config):
        weight_decay: float = 0.01
        """Of matrices, embeddings among them; biases and the gains of norms do not decay."""

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        groups, betas = _groups(parameters, config.weight_decay), (config.beta1, config.beta2)
        super().__init__(groups, lr=config.lr, betas=betas, eps=config.eps, fused=True)


@OPTIMIZER.register("sgd")
class SGD(torch.optim.SGD):
    """v = momentum · v + g, and weights move by −rate · v (Sutskever et al. 2013)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        lr: float = 0.1
        momentum: float = 0.9
        nesterov: bool = False
        """Whether the gradient counts as if v had already been followed."""
        weight_decay: float = 0.0
        """Of the same weights as adamw's, but added to the gradient."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.nesterov and not self.momentum:
                raise ConfigError(["nesterov=True: needs a momentum; set momentum above 0"])

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(
            _groups(parameters, config.weight_decay),
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            fused=True,
        )


def _groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """The field's rule: what has two dimensions or more decays, what has fewer does not."""
    every = list(parameters)
    return [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]


class Schedule:
    """The share of the peak rate at a step, counted from 1: up in a line over `warmup` steps."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        warmup: int = 0

    def __init__(self, config: Config, steps: int) -> None:
        self.steps, self.warmup = steps, config.warmup

    def share(self, step: int) -> float:
        return step / self.warmup if step <= self.warmup else self.after(step)

    def after(self, step: int) -> float:
        """The share past the warm-up."""
        raise NotImplementedError

    def left(self, step: int) -> float:
        """What is left of the way from the peak, 1, to the end of training.

        The end is one step past the last, so that every step moves the weights.
        """
        return (self.steps + 1 - step) / (self.steps + 1 - self.warmup)


@SCHEDULE.register("constant")
class ConstantRate(Schedule):
    """The peak rate to the end."""

    def after(self, step: int) -> float:
        return 1.0


@SCHEDULE.register("linear")
class Linear(Schedule):
    """Down in a straight line to zero after the last step."""

    def after(self, step: int) -> float:
        return self.left(step)


@SCHEDULE.register("cosine")
class Cosine(Schedule):
    """Down half a wave to `floor` after the last step (Loshchilov & Hutter 2017)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Schedule.Config):
        floor: float = 0.0
        """The share of the peak rate that it ends at."""

    def __init__(self, config: Config, steps: int) -> None:
        super().__init__(config, steps)
        self.floor = config.floor

    def after(self, step: int) -> float:
        wave = (1 - math.cos(math.pi * self.left(step))) / 2
        return self.floor + (1 - self.floor) * wave


@SCHEDULE.register("noam")
class Noam(Schedule):
    """min(step^−½, step · warmup^−1½) as a share of its peak (Vaswani et al. 2017, eq. 3).

    The optimizer's rate is the peak; rate = (d_model · warmup)^−½ gives the paper's own. The
    formula does not know the length of training, which may end before the peak.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Schedule.Config):
        warmup: int = 4000

        def __post_init__(self) -> None:
            if self.warmup < 1:
                raise ConfigError([f"warmup={self.warmup}: must be at least 1, the peak's step"])

    def after(self, step: int) -> float:
        return math.sqrt(self.warmup / step)


MOST = 10_000_000  # steps, tokens of a step, micro_batches or evaluations: what is more is a slip


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How a trial is trained. All of it is part of the trial's identity."""

    steps: int = 1000
    batch_tokens: int = 2048
    """Source and target tokens of a step, about."""
    micro_batches: int = 1
    """Batches of like length that a step is made of; their gradients are added up."""
    optimizer: dict[str, Any] = choice(OPTIMIZER, "adam")
    schedule: dict[str, Any] = choice(SCHEDULE, "linear")
    clip: float | None = 1.0
    """The largest norm of the gradient; null for any."""
    label_smoothing: float = 0.0
    """Label smoothing of the training loss. Validation is never smoothed."""
    label_smoothing_over: Literal["all", "other"] = "all"
    """Which words share it: all, or all but the right one."""
    evaluations: int = 5
    """How often the validation loss is taken, the last time at the end."""
    select: Literal["last", "best"] = "last"
    """The weights that are measured: those at the end, or those with the best validation loss."""
    average: float | None = None
    """Decay of a running mean of the weights, which then is what is evaluated and measured."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: matrix products of training in half the bits; weights and loss stay float32."""
    compile: bool = False
    """Whether training runs through torch.compile."""

    def __post_init__(self) -> None:
        problems = [
            f"{name}={value}: must be from 1 to {MOST:,}"
            for name in ("steps", "batch_tokens", "micro_batches", "evaluations")
            if not 1 <= (value := getattr(self, name)) <= MOST
        ]
        if not 0 <= self.label_smoothing < 1:
            problems.append(f"label_smoothing={self.label_smoothing}: must be from 0 to below 1")
        if self.clip is not None and not 0 < self.clip < math.inf:
            problems.append(f"clip={self.clip}: must be positive, or null for none")
        if self.average is not None and not 0 < self.average < 1:
            problems.append(f"average={self.average}: must be between 0 and 1, or null for none")
        if problems:
            raise ConfigError(problems)

    @property
    def budget(self) -> Budget:
        return Budget(self.batch_tokens, self.micro_batches)
