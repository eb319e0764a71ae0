"""A task: training batches, evaluation batches and scores."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ablations.store.files import read_file
from ablations.store.identity import canonical_json
from ablations.store.record import Measurement
from model.batch import EOS, Batch
from model.config import ConfigError, Registry
from model.generate import Answer, Generator, Question, greedy


def check_sizes(config: Any, options: Iterable[str], everything: str) -> list[str]:
    """A problem for each size that is given and below 1."""
    return [
        f"{option}={size}: must be at least 1, or null for {everything}"
        for option in options
        if (size := getattr(config, option)) is not None and size < 1
    ]


def missing_files(config: Any, options: Sequence[str], fix: str) -> list[str]:
    """A problem for each file that is missing where others are given."""
    missing = [option for option in options if getattr(config, option) is None]
    return [f"{option}=null: {fix}" for option in missing if len(missing) < len(options)]


def cut_to_size(
    held: Mapping[str, Any], config: Any, options: Mapping[str, str], unit: str, is_own: bool
) -> dict[str, Any]:
    """As much of each split as its option says; of a user's own files, at most as much."""
    problems = [
        f"{option}={size}: {split} has {len(held[split])} {unit}; "
        "choose at most that, or null for all"
        for split, option in options.items()
        if (size := getattr(config, option)) is not None and size > len(held[split])
    ]
    if problems and not is_own:
        raise ConfigError(problems)
    return {split: held[split][: getattr(config, option)] for split, option in options.items()}


TASK = Registry("task")

Decode = Callable[[Generator, Question, int], list[Answer]]  # the number: tokens, at most
Example = dict[str, str]  # input, target and output, written for a reader


@dataclass(frozen=True)
class Metric:
    """A score of a task: its unit, which direction is better, its label in tables."""

    unit: str
    better: Literal["lower", "higher"]
    title: str
    repeats: Literal["seeds", "processes", "nothing"] = "seeds"
    """What varies between repetitions; a count needs none."""
    matters: float | None = None
    """The size of a difference that matters, registered before any trial is run."""


@dataclass(frozen=True)
class Score:
    """One value of a metric, or None with a reason."""

    metric: str
    value: float | None
    coordinates: dict[str, float] = field(default_factory=dict)
    """The coordinates, such as {"length": 32}; empty for the whole split."""
    reason: str | None = None
    per_example: list[float] | None = field(default=None, compare=False, repr=False)
    """Its value for each example, in the split's order: errors, or 1 for a right answer."""


@dataclass(frozen=True)
class Budget:
    """The size of a training step."""

    tokens: int
    """Tokens of a step: source and target positions, with padding."""
    micro_batches: int = 1
    """Batches of like length that make up a step, from short ones to long ones."""

    @property
    def batch_tokens(self) -> int:
        """Tokens of one batch, about; a longer sequence is a batch of its own."""
        return max(1, self.tokens // self.micro_batches)


class Task:
    """Data and scores. A task's options are its nested `Config`, the first argument of the class.

    Building a task is cheap enough for a plan; tensors are made when batches are first asked for.
    Everything it hands out depends on its Config, the data and the seed that is given, and on
    nothing else: two trials of one seed see the same batches whatever model they train.
    """

    kind: ClassVar[str]
    """The kind of model it feeds: encoder_decoder, decoder or encoder."""
    per: ClassVar[str] = "token"
    """Whether each token has a label, or the whole sequence has one class."""
    metrics: ClassVar[dict[str, Metric]]
    """The names that `scores` uses."""
    files: ClassVar[tuple[str, ...]] = ()
    """Options that name files: a trial's id has the data's digest in their place."""
    writes: ClassVar[bool] = True
    """Whether an answer is generated; if not, it is a class, or the label of the last position."""

    source_size: int | None
    """Size of the encoder's vocabulary; None where there is no source."""
    target_size: int
    """Size of the vocabulary that is predicted, or the number of classes."""
    input_tokens: Any = None
    output_tokens: Any = None
    """The tokenizers of questions and answers (`data/tokens.py`), if their tokens have a text."""
    longest: int
    """The longest sequence, with BOS and EOS, that a model must have positions for."""

    def digest(self) -> str:
        """sha256 of the examples that decide the numbers, in their splits."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        raise NotImplementedError

    def card(self) -> dict[str, Any]:
        """Where the data comes from, its licence, its size, its split and its digest."""
        raise NotImplementedError

    @property
    def described(self) -> dict[str, Any]:
        """The data of a record: the card, and the options that the digest replaces."""
        return {**self.card(), "files": list(self.files)}

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        """The micro-batches of each step, without end; seed and task alone decide them.

        The first is step `start`, counted from 0: a training that goes on sees what it would have
        seen.
        """
        raise NotImplementedError

    def evaluation_batches(self, split: str) -> list[Batch]:
        """Every example of a split once, always in the same batches."""
        raise NotImplementedError

    def trivial(self, split: str) -> dict[str, float]:
        """The loss and scores of an answer that ignores the question.

        `loss`, in nats per label, of knowing how frequent each label is in train; and metrics,
        where such an answer can be scored.
        """
        raise NotImplementedError

    def copied(self, split: str) -> dict[str, float]:
        """The metrics of copying the question as the answer, if that makes sense."""
        return {}

    def ask(self, text: str) -> Question:
        """A typed question; a ValueError says what is wrong with it."""
        raise NotImplementedError

    def symbols(self, text: str) -> list[str]:
        """The tokens that the model reads of such a question."""
        question = self.ask(text)
        tokens = question.prompt if question.source is None else question.source
        assert tokens is not None
        ids = tokens[0].tolist()
        shown = self.input_tokens.show(ids)
        return [*shown[:-1], "end"] if ids[-1] == EOS else shown

    def to_text(self, tokens: Sequence[int]) -> str:
        """The text of an answer."""
        return self.output_tokens.decode(tokens)

    def show(self, tokens: Sequence[int]) -> list[str]:
        """The same, token by token."""
        return self.output_tokens.show(tokens)

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        """The metrics on a split, and a fixed number of decoded examples, right and wrong.

        `decode` writes the answers; a task whose answers are read off one position has no use for
        it.
        """
        raise NotImplementedError

    def measurement(self, score: Score, split: str, at: Mapping[str, float | str]) -> Measurement:
        """A score as a measurement."""
        unit, where = self.metrics[score.metric].unit, {**at, **score.coordinates}
        return Measurement(score.metric, unit, score.value, split, where, reason=score.reason)


MOST = 32  # tasks that all workers find read; more would only fill the memory
_ANNOUNCED = "ABLATIONS_TASKS"


@cache
def load_task(frozen: str) -> Any:
    from ablations.tasks import TASK

    return TASK.build(json.loads(frozen))


@contextlib.contextmanager
def announce(tasks: Iterable[Mapping[str, Any]]) -> Iterator[None]:
    """Announce the tasks that jobs need most to the processes started in the block.

    In a file, since a variable of the environment may have no more than 128 KiB.
    """
    wanted = [frozen for frozen, _ in Counter(map(canonical_json, tasks)).most_common(MOST)]
    opened, name = tempfile.mkstemp(prefix="ablations-tasks-")
    before = os.environ.get(_ANNOUNCED)
    try:
        with open(opened, "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        os.environ[_ANNOUNCED] = name
        yield
    finally:
        os.environ.pop(_ANNOUNCED, None)
        if before is not None:
            os.environ[_ANNOUNCED] = before
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def announced() -> list[str]:
    """The tasks that the process that started this one announced."""
    name = os.environ.get(_ANNOUNCED)
    return [] if name is None else json.loads(read_file(name))
