"""How a trial is trained: every choice, with its default and its range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from ablations.tasks.task import Budget
from ablations.train.optimizer import OPTIMIZER, SCHEDULE
from model.config import ConfigError
from model.registry import choice

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
