"""How weights follow their gradients: optimisers and learning-rate schedules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import nn

from model.config import ConfigError
from model.family import Family

OPTIMISER = Family("optimiser")
SCHEDULE = Family("schedule")


@OPTIMISER.register("adam")
class Adam(torch.optim.Adam):
    """Steps scaled by running moments of the gradient (Kingma & Ba 2015)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        rate: float = 1e-3
        beta1: float = 0.9
        beta2: float = 0.98
        eps: float = 1e-9

        def __post_init__(self) -> None:
            if self.rate <= 0:
                raise ConfigError([f"rate={self.rate}: must be positive"])

    def __init__(self, config: Config, parameters: Iterable[nn.Parameter]) -> None:
        betas = (config.beta1, config.beta2)
        super().__init__(parameters, lr=config.rate, betas=betas, eps=config.eps, fused=True)


class Schedule:
    """The share of the peak rate at a step; steps count from 1."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def share(self, step: int) -> float:
        raise NotImplementedError


@SCHEDULE.register("linear")
class Linear(Schedule):
    """Up in a straight line over `warmup` steps, then down to zero after the last step."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        warmup: int = 0

        def __post_init__(self) -> None:
            if self.warmup < 0:
                raise ConfigError([f"warmup={self.warmup}: must not be negative"])

    def __init__(self, config: Config, steps: int) -> None:
        super().__init__(steps)
        self.warmup = config.warmup

    def share(self, step: int) -> float:
        if step <= self.warmup:
            return step / self.warmup
        return (self.steps + 1 - step) / (self.steps + 1 - self.warmup)
