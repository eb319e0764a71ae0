"""Random strings to copy, reverse or sort.

A model reads the symbols and EOS, and writes the answer with greedy decoding. It is stopped one
symbol past the length of the right answer.

N: examples, L: symbols of a string.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import nn

from ablations.tasks.data.tokens import SPECIAL, Vocabulary
from ablations.tasks.generated import Generated, too_few
from ablations.tasks.scoring import accuracy, edits
from ablations.tasks.task import TASK, Decode, Metric, Score
from model.batch import BOS, EOS, Batch
from model.config import Checked, ranged
from model.generate import Generator, Question


class Strings(Generated):
    """A subclass says what the answer is."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        symbols: int = ranged(16, least=2)
        """Size of the alphabet; all symbols are equally likely."""
        min_length: int = ranged(4, least=1)
        """Symbols of the shortest string."""
        length: int = 16
        """Symbols of the longest; all lengths between get equally many tokens."""
        test_lengths: list[int] | None = None
        """Lengths, also past training, at which answers are also graded. Left out: [length]."""
        examples: int = ranged(500, least=1)
        """Strings that are asked, spread over the training lengths; as many at each test length."""

        def __post_init__(self) -> None:
            if self.test_lengths is None:
                object.__setattr__(self, "test_lengths", [self.length])
            super().__post_init__()

        def problems(self) -> list[str]:
            tests = self.test_lengths
            assert tests is not None
            problems = super().problems()
            if self.length < self.min_length:
                problems.append(
                    f"length={self.length}: must be at least min_length={self.min_length}"
                )
            if not tests or min(tests) < 1 or len(set(tests)) < len(tests):
                problems.append(
                    f"test_lengths={tests}: name at least one length from 1 on, each once"
                )
            if not problems:
                shortest = min(self.min_length, *tests)
                what, wider = f"strings of length {shortest}", "symbols or the length"
                problems = too_few(self, "symbols", self.symbols**shortest, what, wider)
            return problems

    kind: ClassVar[str] = "encoder_decoder"
    coordinate: ClassVar[str] = "length"
    metrics: ClassVar[dict[str, Metric]] = {
        "sequence_accuracy": Metric("right/string", "higher", "strings right", matters=0.05),
        "token_error": Metric("edits/symbol", "lower", "symbol error rate"),
    }

    def __init__(self, config: Config) -> None:
        assert config.test_lengths is not None
        self.config = config
        self.input_tokens = Vocabulary([str(symbol) for symbol in range(config.symbols)])
        self.output_tokens = self.input_tokens
        self.source_size = self.target_size = len(self.input_tokens)
        self.longest = config.length + 2
        self.sizes = range(config.min_length, config.length + 1)
        self.test_sizes, self.examples = config.test_lengths, config.examples

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        return generator.integers(len(SPECIAL), self.target_size, (number, size))

    def cost(self, size: int) -> int:
        return 2 * (size + 1)

    def batch(self, rows_NL: np.ndarray) -> Batch:
        source = np.pad(rows_NL, ((0, 0), (0, 1)), constant_values=EOS)
        target = np.pad(self.answer(rows_NL), ((0, 0), (1, 1)), constant_values=(BOS, EOS))
        return Batch.shifted(torch.from_numpy(target), source_BS=torch.from_numpy(source))

    def questions(self, rows_NL: np.ndarray) -> list[list[int]]:
        return rows_NL.tolist()

    def truths(self, rows_NL: np.ndarray) -> list[list[int]]:
        return self.answer(rows_NL).tolist()

    def answers(
        self, model: nn.Module, rows_NL: np.ndarray, device: torch.device | str, decode: Decode
    ) -> list[list[int]]:
        question = Question(self.batch(rows_NL).to(device).source)
        written = decode(cast(Generator, model), question, rows_NL.shape[1] + 1)
        return [answer.tokens for answer in written]

    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> list[Score]:
        wrong: list[float] = [edits(*both) for both in zip(outputs, truths, strict=True)]
        error = sum(wrong) / sum(map(len, truths))
        return [
            accuracy("sequence_accuracy", outputs, truths),
            Score("token_error", error, per_example=wrong),
        ]

    def trivial(self, split: str) -> dict[str, float]:
        """Each symbol is as likely as any other, and each length has as many of the labels.

        The answer to everything is one symbol again and again or all of them in order, of the
        length that makes fewest edits.
        """
        truths = [truth for rows_NL in self.asked(split) for truth in self.truths(rows_NL)]
        end = sum(1 / (size + 1) for size in self.sizes) / len(self.sizes)
        symbol = (1 - end) / self.config.symbols
        symbols = sum(map(len, truths))
        nats = -len(truths) * math.log(end) - symbols * math.log(symbol)
        first, last = len(SPECIAL), self.target_size - 1
        graded: list[dict[str, Any]] = [
            {
                score.metric: score.value
                for score in self.grade(
                    [np.linspace(first, end, size).round().tolist()] * len(truths), truths
                )
            }
            for size in range(1, self.sizes[-1] + 1)
            for end in (first, last)
        ]
        least = min(graded, key=lambda metrics: metrics["token_error"])
        return {"loss": nats / (len(truths) + symbols), **least}

    def ask(self, text: str) -> Question:
        return Question(torch.tensor([[*self.read(text), EOS]]))


@TASK.register("copy")
class Copy(Strings):
    """The string itself."""

    name = "copy"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return rows_NL


@TASK.register("reverse")
class Reverse(Strings):
    """The string from its end to its start."""

    name = "reverse"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return rows_NL[:, ::-1]


@TASK.register("sort")
class Sort(Strings):
    """The symbols of the string, the smallest first."""

    name = "sort"

    def answer(self, rows_NL: np.ndarray) -> np.ndarray:
        return np.sort(rows_NL, axis=1)
