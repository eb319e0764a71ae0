"""What is read off a trial: one measure a file, found by being here."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from torch import nn

from ablations.store.record import Reading
from ablations.tasks.task import Example, Task
from model.family import Family

MEASURE = Family("measure")


@dataclass
class Taken:
    """What a measure has read off a model."""

    readings: list[Reading]
    examples: list[Example] = field(default_factory=list)
    """Decoded answers, where there are any."""
    items: dict[str, list[float | None]] = field(default_factory=dict)
    """Metric → what each example of test had in it."""


class Measure:
    """Works on a trained model, so it can be added later without training again."""

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        raise NotImplementedError


class Timing:
    """Times an untrained model beside a reference, in a session that has the machine to itself."""

    metric: str
    unit = "s"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, length: int, batch: int
    ) -> Callable[[], None]:
        """The call that is timed, with all that it needs already made."""
        raise NotImplementedError


@cache
def discover() -> Family:
    """The family, with every measure of this folder in it."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return MEASURE


def is_timing(name: str) -> bool:
    return issubclass(discover().part(name), Timing)
