"""Whether the training loss punishes being too sure of the right word."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch

from ablations.measure import MEASURE, Probe, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.loss import cross_entropy

WORDS = 10  # in the vocabulary
SURE = 1 - 1e-6
GOLDEN = (math.sqrt(5) - 1) / 2
CLOSE = 1e-9  # enough: at its least the loss is flat over 1e-8 in double precision


@MEASURE.register("penalty")
class Penalty(Probe):
    """Where the loss of the right word's probability p turns, the rest spread evenly.

    −(1 − ε + ε/V) log p − (ε − ε/V) log((1 − p) / (V − 1)), which is least at p = 1 − ε + ε/V
    (Szegedy et al. 2016, 7). turning_probability: that p, found by search in the project's own
    loss; 1 where it never turns. rise: the loss at p = 1 − 10⁻⁶ less the least.
    """

    quantities: ClassVar = {
        "turning_probability": Quantity(
            "probability", "lower", "probability where the loss turns", repeats="nothing"
        ),
        "rise": Quantity("nats", "lower", "rise of the loss past its least", repeats="nothing"),
    }

    def take(self, config: dict[str, Any], task: Task, device: torch.device) -> Taken:
        train = config["train"]

        def loss(probability: float) -> float:
            return loss_at(probability, train["smoothing"], train["smoothing_over"])

        turning = least(loss)
        rise = loss(SURE) - loss(turning)
        return Taken(
            [
                Reading("turning_probability", "probability", turning),
                Reading("rise", "nats", rise),
            ]
        )


def loss_at(probability: float, smoothing: float, over: str) -> float:
    """In nats, of one label that has this probability."""
    others = [(1 - probability) / (WORDS - 1)] * (WORDS - 1)
    logits = torch.tensor([[probability, *others]], dtype=torch.float64).log()
    return float(cross_entropy(logits, torch.tensor([0]), smoothing, over))


def least(loss: Callable[[float], float]) -> float:
    """Where a convex function of [0, 1] is least, by golden section."""
    low, high = 0.0, 1.0
    while high - low > CLOSE:
        inner, outer = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if loss(inner) <= loss(outer):
            high = outer
        else:
            low = inner
    middle = (low + high) / 2
    return 1.0 if loss(1.0) <= loss(middle) else middle
