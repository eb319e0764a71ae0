"""Optimizers, learning-rate schedules, and the config of a training."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from ablations.tasks.task import Budget
from model.config import Checked, Registry, choice, ranged

OPTIMIZER = Registry("optimizer")
SCHEDULE = Registry("schedule")


@OPTIMIZER.register("adam")
class Adam(torch.optim.Adam):
    """Steps scaled by running moments of the gradient (Kingma & Ba 2015)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        lr: float = ranged(1e-3, above=0)
        beta1: float = ranged(0.9, least=0, below=1)
        beta2: float = ranged(0.98, least=0, below=1)
        eps: float = ranged(1e-9, above=0)

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        betas = (config.beta1, config.beta2)
        super().__init__(parameters, lr=config.lr, betas=betas, eps=config.eps, fused=True)


@OPTIMIZER.register("adamw")
class AdamW(torch.optim.AdamW):
    """Adam, and weights shrink by lr · weight_decay (Loshchilov & Hutter 2019)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Adam.Config):
        weight_decay: float = ranged(0.01, least=0)
        """Decay of matrices and embeddings; biases and the gains of norms do not decay."""

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        groups, betas = _groups(parameters, config.weight_decay), (config.beta1, config.beta2)
        super().__init__(groups, lr=config.lr, betas=betas, eps=config.eps, fused=True)


@OPTIMIZER.register("sgd")
class SGD(torch.optim.SGD):
    """v = momentum · v + g, and weights move by −lr · v (Sutskever et al. 2013)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        lr: float = ranged(0.1, above=0)
        momentum: float = ranged(0.9, least=0, below=1)
        nesterov: bool = False
        """Whether the gradient counts as if v had already been followed."""
        weight_decay: float = ranged(0.0, least=0)
        """Decay of the same weights as adamw's, but added to the gradient."""

        def problems(self) -> list[str]:
            needs = ["nesterov=True: needs a momentum; set momentum above 0"]
            return super().problems() + (needs if self.nesterov and not self.momentum else [])

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        super().__init__(
            _groups(parameters, config.weight_decay),
            lr=config.lr,
            momentum=config.momentum,
            nesterov=config.nesterov,
            fused=True,
        )


def _groups(parameters: Iterable[nn.Parameter], weight_decay: float) -> list[dict[str, Any]]:
    """Matrices decay; vectors, such as biases and gains, do not."""
    every = list(parameters)
    return [
        {"params": [p for p in every if p.dim() >= 2], "weight_decay": weight_decay},
        {"params": [p for p in every if p.dim() < 2], "weight_decay": 0.0},
    ]


class Schedule:
    """The lr of a step, counted from 1, as a share of the peak: linear over `warmup` steps."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        warmup: int = ranged(0, least=0)

    def __init__(self, config: Config, steps: int) -> None:
        self.steps, self.warmup = steps, config.warmup

    def share(self, step: int) -> float:
        return step / self.warmup if step <= self.warmup else self.after(step)

    def after(self, step: int) -> float:
        """The share past the warm-up."""
        raise NotImplementedError

    def left(self, step: int) -> float:
        """The remaining share of the steps between the peak and the end of training.

        The end is one step past the last, so that every step moves the weights.
        """
        return (self.steps + 1 - step) / (self.steps + 1 - self.warmup)


@SCHEDULE.register("constant")
class ConstantRate(Schedule):
    """The peak lr to the end."""

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
        floor: float = ranged(0.0, least=0, most=1)
        """The share of the peak lr that it ends at."""

    def __init__(self, config: Config, steps: int) -> None:
        super().__init__(config, steps)
        self.floor = config.floor

    def after(self, step: int) -> float:
        wave = (1 - math.cos(math.pi * self.left(step))) / 2
        return self.floor + (1 - self.floor) * wave


@SCHEDULE.register("noam")
class Noam(Schedule):
    """min(step^−½, step · warmup^−1½) as a share of its peak (Vaswani et al. 2017, eq. 3).

    The optimizer's lr is the peak; lr = (d_model · warmup)^−½ gives the paper's own. The
    formula does not know the length of training, which may end before the peak.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Schedule.Config):
        warmup: int = ranged(4000, least=1)

    def after(self, step: int) -> float:
        return math.sqrt(self.warmup / step)


MOST = 10_000_000  # steps, tokens of a step, micro_batches or evaluations: more is a typing mistake


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Checked):
    """How a trial is trained. All of it is part of the trial's identity."""

    steps: int = ranged(1000, least=1, most=MOST)
    batch_tokens: int = ranged(2048, least=1, most=MOST)
    """Source and target tokens of a step, about."""
    micro_batches: int = ranged(1, least=1, most=MOST)
    """Batches of like length that a step is made of; their gradients are added up."""
    optimizer: dict[str, Any] = choice(OPTIMIZER, "adam")
    schedule: dict[str, Any] = choice(SCHEDULE, "linear")
    clip: float | None = ranged(1.0, above=0, below=math.inf)
    """The largest norm of the gradient; null for any."""
    label_smoothing: float = ranged(0.0, least=0, below=1)
    """Label smoothing of the training loss. Validation is never smoothed."""
    label_smoothing_over: Literal["all", "other"] = "all"
    """Which words share it: all, or all but the right one."""
    evaluations: int = ranged(5, least=1, most=MOST)
    """How often the validation loss is taken, the last time at the end."""
    select: Literal["last", "best"] = "last"
    """The weights that are measured: those at the end, or those with the best validation loss."""
    average: float | None = ranged(None, above=0, below=1)
    """Decay of a running mean of the weights, which then is what is evaluated and measured."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: matrix products of training in half the bits; weights and loss stay float32."""
    compile: bool = False
    """Whether training runs through torch.compile."""

    @property
    def budget(self) -> Budget:
        return Budget(self.batch_tokens, self.micro_batches)
