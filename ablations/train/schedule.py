"""How the learning rate moves over training."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ablations.train.ranges import Checked
from model.config import ConfigError
from model.family import Family

SCHEDULE = Family("schedule")


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

    The optimiser's rate is the peak; rate = (d_model · warmup)^−½ gives the paper's own. The
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
