"""The devices of one training: one, unless told otherwise.

All that several do otherwise is a method here that does nothing; `ablations/train/ranks.py` is what
they do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from torch import Tensor

from model.batch import Batch

Forward = Callable[[Batch], Tensor]


class Devices:
    """A single one: every row is its own, and what it has summed is the whole sum."""

    count = 1

    def joined(self, forward: Forward) -> Forward:
        """The model as training calls it, with the gradients of all devices."""
        return forward

    def begin(self, seed: int, step: int) -> None:
        """A step begins: no two devices drop the same."""

    def share(self, part: Batch) -> Batch:
        """The rows of a part that are computed here."""
        return part

    def in_turn(self, parts: Sequence[Batch]) -> Iterable[Batch]:
        """The shares of a step, one after another; with the last, gradients become those of all."""
        return parts

    def mean(self, loss: Tensor) -> Tensor:
        """Over the devices."""
        return loss

    def own(self, batches: int) -> range:
        """Which of so many batches are evaluated here."""
        return range(batches)

    def gathered(self, losses: list[float]) -> list[float]:
        """The losses of all batches; here are those that were evaluated, and 0 for the others."""
        return losses


ALONE = Devices()
