"""What a task gives a trial: batches to learn from, batches to be tested on, and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from model.batch import Batch
from model.family import Family
from model.generate import Question

TASK = Family("task")

Split = Literal["train", "valid", "test"]


@dataclass(frozen=True)
class Metric:
    """A score that a task takes: its unit, which way is better, what a table calls it."""

    unit: str
    better: Literal["lower", "higher"]
    label: str


class Task:
    """Data and scores. A task's options are its nested `Config`, the first argument of the class.

    Building a task is cheap enough for a plan; tensors are made when batches are first asked for.
    Everything it hands out depends on its Config, the data and the seed that is given, and on
    nothing else: two trials of one seed see the same batches whatever model they train.
    """

    kind: ClassVar[str]
    """The kind of model it feeds: encoder_decoder, decoder or encoder."""
    metrics: ClassVar[dict[str, Metric]]
    """The names that `scores` uses."""

    source_size: int | None
    """Size of the encoder's vocabulary; None where there is no source."""
    target_size: int
    """Size of the vocabulary that is predicted."""
    longest: int
    """The longest sequence, with BOS and EOS, that a model must have positions for."""

    def digest(self) -> str:
        """sha256 of the examples that decide the numbers, in their splits."""
        raise NotImplementedError

    def card(self) -> dict[str, Any]:
        """Where the data comes from, its licence, its size, its split and its digest."""
        raise NotImplementedError

    def train_batches(self, seed: int, batch_size: int) -> Iterator[Batch]:
        """Batches without end, in an order that the seed and the task alone decide."""
        raise NotImplementedError

    def evaluation_batches(self, split: str) -> list[Batch]:
        """Every example of a split once, always in the same batches."""
        raise NotImplementedError

    def trivial_loss(self) -> float:
        """Nats per token, on valid, of a model that knows only how frequent each label is."""
        raise NotImplementedError

    def ask(self, text: str) -> Question:
        """A question of a reader's own; a ValueError says what cannot be asked."""
        raise NotImplementedError

    def symbols(self, text: str) -> list[str]:
        """What the model reads of such a question, token by token."""
        raise NotImplementedError

    def tell(self, tokens: Sequence[int]) -> str:
        """An answer, written for a reader, tokens with spaces between."""
        raise NotImplementedError

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str
    ) -> tuple[dict[str, float], list[dict[str, str]]]:
        """The metrics on a split, and a fixed number of decoded examples, right and wrong.

        An example has an `input`, a `target` and an `output`, written for a reader.
        """
        raise NotImplementedError
