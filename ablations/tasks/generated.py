"""Generated examples: nothing to download, and as many as needed.

An example is a row of token ids. A hash of the row puts it in train (90 %), valid (5 %) or test
(5 %): no test example is in train, whatever the seed. A batch holds examples of one size, so that
nothing is padded. The batches of a step are a function of the seed and the step's number.

N: examples, W: tokens of a row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from hashlib import sha256
from itertools import count
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ablations.tasks.data.tokens import Vocabulary
from ablations.tasks.scoring import each_right, some_of_each
from ablations.tasks.task import Budget, Decode, Example, Score, Task
from model.batch import Batch
from model.generate import greedy

ENOUGH = 1000  # different examples of one size, so that no split is left without any
EVALUATION_BATCH = 512
SHARES = {"train": 0.9, "valid": 0.05, "test": 0.05}
_TWENTIETHS = np.array(["valid", "test", *["train"] * 18])


class Generated(Task):
    """A subclass draws rows of a given size, makes batches of them, and grades answers."""

    name: ClassVar[str]
    coordinate: ClassVar[str]
    """The coordinate of a size in measurements."""
    config: Any
    input_tokens: Vocabulary
    sizes: Sequence[int]
    """Training sizes; each gets equally many tokens."""
    test_sizes: Sequence[int] = ()
    """Sizes at which answers are also graded separately."""
    examples: int
    """Examples of a split, spread over the sizes, and of each test size."""

    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        """N W: examples, whatever their split."""
        raise NotImplementedError

    def batch(self, rows_NW: np.ndarray) -> Batch:
        raise NotImplementedError

    def cost(self, size: int) -> int:
        """Positions that a model reads of one example."""
        raise NotImplementedError

    def questions(self, rows_NW: np.ndarray) -> list[list[int]]:
        """The question of each row, to be displayed."""
        raise NotImplementedError

    def truths(self, rows_NW: np.ndarray) -> list[list[int]]:
        """The right answer to each row."""
        raise NotImplementedError

    def answers(
        self, model: nn.Module, rows_NW: np.ndarray, device: torch.device | str, decode: Decode
    ) -> list[list[int]]:
        """The model's answer to each row; `decode` is for answers that are written."""
        raise NotImplementedError

    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> list[Score]:
        """Each metric of the task."""
        raise NotImplementedError

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        for step in count(start):
            generator = _generator(self.name, "train", seed, step)
            yield tuple(
                self._batch(generator, budget, index) for index in range(budget.micro_batches)
            )

    def _batch(self, generator: np.random.Generator, budget: Budget, index: int) -> Batch:
        """A batch of one size: the first of a step has a small one, the last a large one."""
        kinds = len(self.sizes)
        place = int(generator.integers(index * kinds, (index + 1) * kinds))
        size = self.sizes[place // budget.micro_batches]
        number = max(1, budget.batch_tokens // self.cost(size))
        return self.batch(self._rows(generator, "train", number, size))

    def _rows(
        self, generator: np.random.Generator, split: str, number: int, size: int
    ) -> np.ndarray:
        kept: list[np.ndarray] = []
        while number > 0:
            drawn_NW = self.draw(generator, math.ceil(number / SHARES[split]) + 8, size)
            kept.append(drawn_NW[splits_of(drawn_NW) == split][:number])
            number -= len(kept[-1])
        return np.concatenate(kept)

    def asked(self, split: str) -> list[np.ndarray]:
        """The examples of a split, each array of one size."""
        if split not in self._asked:
            spread = np.array_split(np.arange(self.examples), len(self.sizes))
            self._asked[split] = [
                rows_NW
                for size, share in zip(self.sizes, spread, strict=True)
                for rows_NW in self._asked_at(split, size, len(share))
            ]
        return self._asked[split]

    @cached_property
    def _asked(self) -> dict[str, list[np.ndarray]]:
        return {}

    def _asked_at(self, split: str, size: int, number: int) -> list[np.ndarray]:
        if number == 0:
            return []
        rows_NW = self._rows(_generator(self.name, split, size), split, number, size)
        return np.array_split(rows_NW, math.ceil(number / EVALUATION_BATCH))

    def evaluation_batches(self, split: str) -> list[Batch]:
        return [self.batch(rows_NW) for rows_NW in self.asked(split)]

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        def both(asked: list[np.ndarray]) -> tuple[list[list[int]], list[list[int]]]:
            """Answers and right answers."""
            outputs = [each for rows in asked for each in self.answers(model, rows, device, decode)]
            return outputs, [each for rows in asked for each in self.truths(rows)]

        outputs, truths = both(self.asked(split))
        scores = self.grade(outputs, truths)
        for size in self.test_sizes:
            at: dict[str, float] = {self.coordinate: size}
            try:
                graded = self.grade(*both(self._asked_at(split, size, self.examples)))
            except ValueError as error:  # positions that this model has no vectors for
                scores += [Score(metric, None, at, str(error)) for metric in self.metrics]
            else:
                scores += [replace(score, coordinates=at, per_example=None) for score in graded]
        questions = [each for rows in self.asked(split) for each in self.questions(rows)]
        texts = [map(self.to_text, each) for each in (questions, truths, outputs)]
        return scores, some_of_each(each_right(outputs, truths), *texts)

    @cached_property
    def _digest(self) -> str:
        digest = sha256(json.dumps([self.name, asdict(self.config)], sort_keys=True).encode())
        for split in ("valid", "test"):
            beyond = [self._asked_at(split, size, self.examples) for size in self.test_sizes]
            for rows_NW in sum(beyond, self.asked(split)):
                digest.update(rows_NW.astype("<i4").tobytes())
        return digest.hexdigest()

    def card(self) -> dict[str, Any]:
        return {
            "task": self.name,
            "source": "generated",
            "licence": "none needed",
            "size": {"train": "without end", "valid": self.examples, "test": self.examples},
            "split": "90 % train, 5 % valid, 5 % test by a hash of the example",
            "sha256": self.digest(),
        }

    def read(self, text: str) -> list[int]:
        """The tokens of a typed question; a ValueError shows an example."""
        rows_NW = self.asked("valid")[0]
        return self.input_tokens.read(text, self.to_text(self.questions(rows_NW[:1])[0]))


def splits_of(rows_NW: np.ndarray) -> np.ndarray:
    """N: the split that each example belongs to, by a hash of its tokens (mixed by splitmix64)."""
    powers_W = np.cumprod(np.full(rows_NW.shape[1], 0x9E3779B97F4A7C15, np.uint64))
    hash_N = rows_NW.astype(np.uint64) @ powers_W
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        hash_N = (hash_N ^ (hash_N >> np.uint64(shift))) * np.uint64(factor)
    return _TWENTIETHS[(hash_N ^ (hash_N >> np.uint64(31))) % 20]


def too_few(config: Any, option: str, number: int, what: str, wider: str) -> list[str]:
    """The problem with an option that leaves too few different examples to split."""
    if number >= ENOUGH:
        return []
    return [
        f"{option}={getattr(config, option)}: there are {number} {what}, too few to split; "
        f"raise {wider}, so that there are {ENOUGH}"
    ]


def _generator(*key: object) -> np.random.Generator:
    digest = sha256(" ".join(map(str, key)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))
