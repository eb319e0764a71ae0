"""Every task as its smoke trial has it: base/<task>.yaml, made small by profiles/smoke.yaml."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import islice
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.config import FOLDER, override, read_yaml, resolve_trial
from ablations.profile import read_profile
from ablations.tasks import TASK, Task
from ablations.tasks.task import Budget
from ablations.train.config import TrainConfig
from model.batch import EOS, IGNORE, Batch
from model.build import build
from model.generate import Decoding

SMOKE = "ablations/profiles/smoke.yaml"

REPEATED = {"translation": 0.03}
"""Task → the share of asked examples that may be taught too: passages that stand in two books."""

OWN_FILES: dict[str, dict[str, str]] = {
    "g2p": {"train": "tea\tT IY\nate\tEY T\n", "valid": "eat\tIY T\n", "test": "tee\tT IY\n"},
    "text": {"file": "one line\nand another\nthe last line\n"},
    "translation": {
        f"{split}_{side}": f"{word} he goes away\n{word} she stays here\n"
        for split in ("train", "valid", "test")
        for side, word in (("source", "lo"), ("target", "see"))
    },
}
"""Task → option → what a user's own file could say, for tasks whose options name files."""
WITH_OWN_FILES: dict[str, dict[str, Any]] = {"translation": {"tokens": {"name": "words"}}}
"""Further options without which such small files would not do."""


@dataclass(frozen=True)
class TaskSubject:
    """A task under examination, and the trial that is made of it."""

    name: str
    config: dict[str, Any]
    """Task, model and training, every value written out."""

    def built(self, **options: Any) -> Task:
        """A task of its own, so that nothing it keeps is another test's; with other options."""
        return TASK.build({**self.config["task"], **options})

    def model(self, task: Task, **options: Any) -> nn.Module:
        written = {**self.config["model"], **options}
        return build(written, task.source_size, task.target_size, seed=0)

    @property
    def settings(self) -> TrainConfig:
        return TrainConfig(**self.config["train"])

    @cached_property
    def task(self) -> Task:
        """One for all checks that only look."""
        return self.built()

    def __str__(self) -> str:
        return self.name


def tree_of(name: str) -> dict[str, Any]:
    """What the two files say of a task, before it is checked."""
    file = FOLDER / "base" / f"{name}.yaml"
    assert file.exists(), f"task {name} has no control: write ablations/base/{name}.yaml"
    smoke = read_profile("smoke").settings.values
    assert name in smoke, f"task {name} has no small size: write its settings in {SMOKE}"
    return override(read_yaml(file).values, smoke[name])


@cache
def task_subject(name: str) -> TaskSubject:
    return TaskSubject(name, resolve_trial(tree_of(name)))


def failures(checks: Sequence[Callable[[Any], None]], subject: Any) -> list[str]:
    """What each failing check says."""
    found = []
    for check in checks:
        try:
            check(subject)
        except AssertionError as error:
            found.append(f"{check.__name__}: {error}")
    return found


Row = tuple[int, ...]
ASKED = ("valid", "test")


def read(batch: Batch) -> list[Row]:
    """What a model reads of each example before it answers, without padding."""
    if batch.source is not None:
        return _rows(batch.source, batch.source_lengths)
    assert batch.inputs is not None
    return _rows(batch.inputs, batch.lengths)


def labels_of(batch: Batch) -> list[Row]:
    """The labels of each example that count."""
    labels = batch.labels if batch.labels.dim() == 2 else batch.labels[:, None]
    return [tuple(label for label in row if label != IGNORE) for row in labels.tolist()]


def examples(batches: Iterable[Batch]) -> list[tuple[Row, Row]]:
    return [both for b in batches for both in zip(read(b), labels_of(b), strict=True)]


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
