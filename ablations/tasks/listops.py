"""Nested lists to evaluate: ten classes, one for a whole sequence.

    [MAX 2 9 [MIN 4 7 ] 0 ]  →  9

MED is the median rounded down, SM the sum modulo 10 (Nangia & Bowman 2018). A tree is drawn as in
the Long Range Arena (Tay et al. 2021): a node above the last level is a list with probability 1/4
and a digit otherwise, and a list has from 2 to max_args members. A tree whose number of tokens is
not asked for is drawn again, and no expression comes twice, so splits share none.

The defaults are far smaller than the Arena's, which are max_depth 10, max_args 10, lengths 501 to
1999, 96,000 training examples and 2,000 of each other split. Its encoding also had a parenthesis
for each member; published models drop them, and so does this.

B: examples of a batch.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from itertools import islice
from random import Random
from statistics import median
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from ablations.tasks.batching import PaddedTask
from ablations.tasks.data.tokens import Vocabulary
from ablations.tasks.scoring import accuracy, each_right, some_of_each
from ablations.tasks.task import TASK, Decode, Example, Metric, Score
from model.batch import BOS
from model.config import Checked, ConfigError, ranged
from model.generate import Question, greedy
from model.layers import evaluating

OPERATORS: dict[str, Callable[[list[int]], int]] = {
    "[MIN": min,
    "[MAX": max,
    "[MED": lambda members: int(median(members)),
    "[SM": lambda members: sum(members) % 10,
}
_NAMES = tuple(OPERATORS)
CLASSES = 10
LIST_SHARE = 0.25
TRIES = 10_000  # useless trees in a row: after so many, too few useful ones are left

Tree = tuple[list[str], int]  # its symbols and its value


@TASK.register("listops")
class ListOps(PaddedTask):
    """Nested lists of digits, to be evaluated."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        max_depth: int = ranged(4, least=2)
        """Levels of a tree, the digits' own included: 2 is one flat list."""
        max_args: int = ranged(4, least=2)
        """Members of a list, at most."""
        min_length: int = ranged(4, least=4)
        """Tokens of the shortest expression."""
        max_length: int = 32
        examples: int = ranged(20_000, least=1)
        """Expressions to learn from, in an order that the seed decides."""
        test_examples: int = ranged(1000, least=1)
        """Expressions in valid, and as many in test."""

        def problems(self) -> list[str]:
            problems = super().problems()
            if self.max_length < self.min_length:
                problems.append(
                    f"max_length={self.max_length}: must be at least min_length={self.min_length}"
                )
            longest = 1  # a digit; then lists of lists of as many members as may be
            for _ in range(1, self.max_depth):
                longest = 2 + self.max_args * longest
                if longest >= self.min_length:
                    break
            if not problems and longest < self.min_length:
                shape = f"max_depth={self.max_depth} and max_args={self.max_args}"
                most = f"no list has more than {longest} tokens with {shape}"
                problems.append(f"min_length={self.min_length}: {most}")
            return problems

    name = "listops"
    kind: ClassVar[str] = "encoder"
    per: ClassVar[str] = "sequence"
    metrics: ClassVar[dict[str, Metric]] = {
        "accuracy": Metric("right/expression", "higher", "accuracy", matters=0.05)
    }
    input_tokens = Vocabulary([*map(str, range(CLASSES)), *OPERATORS, "]"])
    source_size = len(input_tokens)
    target_size = CLASSES
    writes = False

    def __init__(self, config: Config) -> None:
        self.config = config
        self.longest = config.max_length
        self._drawn = self._unique()

    def sequences(self, split: str) -> tuple[list[list[int]], list[list[int]]]:
        trees = self.trees(split)
        sources = [self.input_tokens.encode(symbols) for symbols, _ in trees]
        return sources, [[BOS, value] for _, value in trees]

    def _unique(self) -> Iterator[Tree]:
        """Expressions without end, none twice. Valid has the first, then test, then train."""
        config = self.config
        shape = (config.max_depth, config.max_args, config.min_length, config.max_length)
        digest = sha256(f"listops {shape}".encode()).digest()
        random = Random(int.from_bytes(digest[:8], "big")).random
        seen: set[str] = set()
        tries = 0
        while tries < TRIES:
            symbols: list[str] = []
            value = self._grow(random, symbols, 1)
            text = "".join(symbols)
            if value is None or len(symbols) < config.min_length or text in seen:
                tries += 1
                continue
            tries = 0
            seen.add(text)
            yield symbols, value

    def _grow(self, random: Callable[[], float], symbols: list[str], depth: int) -> int | None:
        """The value of one more tree, whose symbols are appended; None once there are too many."""
        if depth == self.config.max_depth or (depth > 1 and random() > LIST_SHARE):
            digit = int(random() * 10)
            symbols.append(str(digit))
            return digit
        operator = _NAMES[int(random() * len(_NAMES))]
        symbols.append(operator)
        members = []
        for _ in range(2 + int(random() * (self.config.max_args - 1))):
            member = self._grow(random, symbols, depth + 1)
            if member is None or len(symbols) >= self.config.max_length:
                return None
            members.append(member)
        symbols.append("]")
        return OPERATORS[operator](members)

    @cached_property
    def _asked(self) -> dict[str, list[Tree]]:
        return {split: self._take(self.config.test_examples) for split in ("valid", "test")}

    @cached_property
    def _taught(self) -> list[Tree]:
        assert self._asked
        return self._take(self.config.examples)

    def _take(self, number: int) -> list[Tree]:
        taken = list(islice(self._drawn, number))
        if len(taken) < number:
            raise ConfigError(
                ["task.max_length: there are too few different expressions of these lengths; widen "
                 "min_length and max_length, or raise max_depth or max_args"]
            )  # fmt: skip
        return taken

    def trees(self, split: str) -> list[Tree]:
        """The expressions of a split and their values."""
        return self._taught if split == "train" else self._asked[split]

    def trivial(self, split: str) -> dict[str, float]:
        """The loss of class frequencies in train (add-one); the accuracy of the likeliest."""
        taught = Counter(value for _, value in self.trees("train"))
        seen = np.array([taught[value] + 1 for value in range(CLASSES)])
        asked = np.bincount([value for _, value in self.trees(split)], minlength=CLASSES)
        loss = -(asked * np.log(seen / seen.sum())).sum() / asked.sum()
        return {"loss": float(loss), "accuracy": float(asked[seen.argmax()] / asked.sum())}

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        trees = self.trees(split)
        outputs = [0] * len(trees)
        with evaluating(model), torch.inference_mode():
            for rows_B, batch in self.pairs(split).asked:
                said_B = model(batch.to(device)).argmax(dim=-1).tolist()
                for row, said in zip(rows_B.tolist(), said_B, strict=True):
                    outputs[row] = said
        truths = [value for _, value in trees]
        texts = [" ".join(symbols) for symbols, _ in trees], map(str, truths), map(str, outputs)
        examples = some_of_each(each_right(outputs, truths), *texts)
        return [accuracy("accuracy", outputs, truths)], examples

    @cached_property
    def _digest(self) -> str:
        """Digest of the test examples and of the options, which decide the training examples."""
        decisive = [asdict(self.config), self._asked]
        return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def card(self) -> dict[str, Any]:
        asked = self.config.test_examples
        return {
            "task": "listops",
            "source": "generated",
            "licence": "none needed",
            "size": {"train": self.config.examples, "valid": asked, "test": asked},
            "split": "in the order in which they are drawn, each expression once",
            "sha256": self.digest(),
        }

    def ask(self, text: str) -> Question:
        example = " ".join(self._asked["valid"][0][0])
        return Question(torch.tensor([self.input_tokens.read(text, example)]))

    def to_text(self, tokens: Sequence[int]) -> str:
        return " ".join(self.show(tokens))

    def show(self, tokens: Sequence[int]) -> list[str]:
        return [str(value) for value in tokens]
