"""What checks of tasks look at: examples as plain rows, and models that know or know nothing."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.tasks import Task
from ablations.tasks.task import Budget
from model.batch import EOS, IGNORE, Batch
from model.generate import Decoding

Row = tuple[int, ...]
ASKED = ("valid", "test")


def read(batch: Batch) -> list[Row]:
    """What a model reads of each example before it answers, without padding."""
    if batch.source is not None:
        return _rows(batch.source, batch.source_lengths)
    assert batch.inputs is not None
    return _rows(batch.inputs, batch.lengths)


def said(batch: Batch) -> list[Row]:
    """The labels of each example that count."""
    labels = batch.labels if batch.labels.dim() == 2 else batch.labels[:, None]
    return [tuple(label for label in row if label != IGNORE) for row in labels.tolist()]


def examples(batches: Iterable[Batch]) -> list[tuple[Row, Row]]:
    return [both for b in batches for both in zip(read(b), said(b), strict=True)]


def _rows(tokens: Tensor, lengths: Tensor | None) -> list[Row]:
    ends = [tokens.shape[1]] * len(tokens) if lengths is None else lengths.tolist()
    return [tuple(row[:end]) for row, end in zip(tokens.tolist(), ends, strict=True)]


def steps(task: Task, seed: int, budget: Budget, number: int, start: int = 0) -> list[Any]:
    """So many steps of training, as plain lists that can be compared."""
    return [
        [plain(part) for part in step] for step in islice(task.steps(seed, budget, start), number)
    ]


def plain(batch: Batch) -> dict[str, Any]:
    return {name: None if t is None else t.tolist() for name, t in vars(batch).items()}


def generators() -> list[Any]:
    """Where the generators stand that everyone shares."""
    drawn = torch.get_rng_state().numpy().tobytes()
    return [drawn, str(np.random.get_state()), random.getstate()]


class Knows(nn.Module):
    """Gives the right answer to whatever a task asks."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        self.size, self.silent = task.target_size, False
        asked = [both for split in ASKED for both in examples(task.evaluation_batches(split))]
        self.answers = dict(asked)

    def forward(self, batch: Batch) -> Tensor:
        """A batch carries its labels, which no real model looks at."""
        labels = torch.zeros_like(batch.labels) if self.silent else batch.labels.clamp(min=0)
        return 1e4 * F.one_hot(labels, self.size).float()

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor | None, lengths_B: Tensor | None
    ) -> Decoding:
        written_BT = torch.full((sequences, capacity + 1), EOS)
        sources = [] if source_BS is None or self.silent else _rows(source_BS, lengths_B)
        for row, source in enumerate(sources):
            if source not in self.answers:
                raise ValueError("this was not among the examples of the split")
            written_BT[row, : len(self.answers[source])] = torch.tensor(self.answers[source])
        return Decoding(0, (written_BT,))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        end = decoding.start + tokens_BT.shape[1]
        said_BT = decoding.states[0][:, decoding.start : end]
        return 1e4 * F.one_hot(said_BT, self.size).float(), Decoding(end, decoding.states)


def silent(task: Task) -> Knows:
    """Says the first token to everything, or nothing at all."""
    model = Knows(task)
    model.silent = True
    return model
