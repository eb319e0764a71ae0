"""Lookup: a decoder reads a row and answers one token at its last position.

N: examples, W: tokens of a row with its answer, T: those that are read, W − 1; K: keys, P: pairs
that are shown, S: slots, A: those that are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import product
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import nn

from ablations.tasks.data.tokens import SPECIAL, Vocabulary
from ablations.tasks.generated import Generated, too_few
from ablations.tasks.scoring import accuracy
from ablations.tasks.task import TASK, Decode, Metric, Score
from model.batch import IGNORE, Batch
from model.config import Checked, ranged
from model.generate import Question
from model.layers import evaluating


class Lookup(Generated):
    """Rows end in the answer, which is the only label."""

    kind: ClassVar[str] = "decoder"
    metrics: ClassVar[dict[str, Metric]] = {
        "accuracy": Metric("right/question", "higher", "accuracy", matters=0.05)
    }
    source_size = None
    writes = False

    def batch(self, rows_NW: np.ndarray) -> Batch:
        rows = torch.from_numpy(rows_NW)
        labels_NT = torch.full_like(rows[:, 1:], IGNORE)
        labels_NT[:, -1] = rows[:, -1]
        return Batch(labels_NT, inputs=rows[:, :-1])

    def questions(self, rows_NW: np.ndarray) -> list[list[int]]:
        return rows_NW[:, :-1].tolist()

    def truths(self, rows_NW: np.ndarray) -> list[list[int]]:
        return rows_NW[:, -1:].tolist()

    def answers(
        self, model: nn.Module, rows_NW: np.ndarray, device: torch.device | str, decode: Decode
    ) -> list[list[int]]:
        with evaluating(model), torch.inference_mode():
            logits_NTV = model(self.batch(rows_NW).to(device))
        return logits_NTV[:, -1:].argmax(dim=-1).tolist()

    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> list[Score]:
        return [accuracy("accuracy", outputs, truths)]

    def ask(self, text: str) -> Question:
        return Question(prompt=torch.tensor([self.read(text)]))


FILLERS = 8  # different ones: so that filler is not one repeated token


@TASK.register("recall")
class Recall(Lookup):
    """What was the value of this key? Pairs are shown, then filler, then one of the keys.

        3=1 5=0 2=7  .4 .0 .2 … .1  5  →  =0

    Every key is shown at most once. The number of filler tokens is the distance over which the
    answer must be carried (associative recall: Graves et al. 2014, Ba et al. 2016).
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        keys: int = ranged(16, least=1)
        values: int = ranged(8, least=2)
        pairs: int = ranged(8, least=1)
        """How many are shown."""
        distance: int = ranged(16, least=0)
        """Filler tokens between the pairs and the question."""
        test_distances: list[int] = field(default_factory=list)
        """Distances at which answers are also graded, past the training distance too."""
        tokens: Literal["one", "two"] = "one"
        """Tokens of a pair: one, or two, a key and its value, which a model must learn to join."""
        examples: int = ranged(1000, least=1)
        """Questions that are asked; as many at each test distance."""

        def problems(self) -> list[str]:
            problems = super().problems()
            if self.pairs > self.keys:
                problems.append(
                    f"pairs={self.pairs}: each shows another key; choose at most keys={self.keys}"
                )
            tests = self.test_distances
            if any(test < 0 for test in tests) or len(set(tests)) < len(tests):
                problems.append(f"test_distances={tests}: name distances from 0 on, each once")
            if not problems:
                shown = math.perm(self.keys, self.pairs) * self.values**self.pairs * self.pairs
                shown *= FILLERS ** min([self.distance, *tests])
                wider = "keys, values or pairs"
                problems = too_few(self, "pairs", shown, "different questions", wider)
            return problems

    name = "recall"
    coordinate: ClassVar[str] = "distance"

    def __init__(self, config: Config) -> None:
        keys, values = range(config.keys), range(config.values)
        self.config = config
        self.joined = config.tokens == "one"
        together = [f"{key}={value}" for key in keys for value in values] if self.joined else []
        fillers = [f".{filler}" for filler in range(FILLERS)]
        apart = [*(f"={value}" for value in values), *map(str, keys)]
        self.input_tokens = self.output_tokens = Vocabulary([*apart, *fillers, *together])
        self.target_size = len(self.output_tokens)
        self.sizes, self.test_sizes = [config.distance], config.test_distances
        self.examples = config.examples
        self.longest = self.cost(config.distance)

    def cost(self, size: int) -> int:
        return self.config.pairs * (1 if self.joined else 2) + size + 1

    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        keys, values, pairs = self.config.keys, self.config.values, self.config.pairs
        first_key = len(SPECIAL) + values
        first_filler = first_key + keys
        keys_NK = np.broadcast_to(np.arange(keys), (number, keys))
        keys_NP = generator.permuted(keys_NK, axis=1)[:, :pairs]
        values_NP = generator.integers(0, values, (number, pairs))
        if self.joined:
            shown = first_filler + FILLERS + keys_NP * values + values_NP
        else:
            both_NP2 = np.stack((first_key + keys_NP, len(SPECIAL) + values_NP), axis=2)
            shown = both_NP2.reshape(number, 2 * pairs)
        filler = generator.integers(first_filler, first_filler + FILLERS, (number, size))
        asked_N1 = generator.integers(0, pairs, (number, 1))
        key_N1 = first_key + np.take_along_axis(keys_NP, asked_N1, axis=1)
        value_N1 = len(SPECIAL) + np.take_along_axis(values_NP, asked_N1, axis=1)
        return np.hstack((shown, filler, key_N1, value_N1))

    def trivial(self, split: str) -> dict[str, float]:
        """All values are equally likely."""
        return {"loss": math.log(self.config.values), "accuracy": 1 / self.config.values}


MOST_TOKENS = 20_000


@TASK.register("pair")
class Pair(Lookup):
    """What do these slots hold, in this order? Two places, or more, to look at from one position.

        3=1 0=5 2=1 1=7  2,1  →  =1,7

    The slots come in any order and the question is one token, so that all places must be found
    from there. A head hands over one average of what it attends to; two heads hand over two. One
    head can still do it, if it is wide enough or learns to weigh the places unequally.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        slots: int = ranged(8, least=2)
        values: int = ranged(8, least=2)
        """What a slot may hold; an answer is one token for all values."""
        asked: int = ranged(2, least=1)
        """Slots in one question."""
        examples: int = ranged(1000, least=1)
        """Questions that are asked."""

        def problems(self) -> list[str]:
            problems = super().problems()
            if not problems and self.asked > self.slots:
                problems.append(f"asked={self.asked}: choose at most slots={self.slots}")
            if not problems and max(self.slots, self.values) ** min(self.asked, 99) > MOST_TOKENS:
                problems.append(
                    f"asked={self.asked}: each question and each answer is a token of its own, "
                    f"more than {MOST_TOKENS:,} of them; choose fewer slots, values or asked"
                )
            if not problems:
                held = math.factorial(self.slots) * self.values**self.slots
                shown = held * math.perm(self.slots, self.asked)
                problems = too_few(self, "slots", shown, "different questions", "slots or values")
            return problems

    name = "pair"
    coordinate: ClassVar[str] = "slots"

    def __init__(self, config: Config) -> None:
        slots, values = range(config.slots), range(config.values)
        self.config = config
        held = [f"{slot}={value}" for slot in slots for value in values]
        asked = [f"{_listed(each)}?" for each in product(slots, repeat=config.asked)]
        said = [f"={_listed(each)}" for each in product(values, repeat=config.asked)]
        self.input_tokens = self.output_tokens = Vocabulary([*held, *asked, *said])
        self.target_size = len(self.output_tokens)
        self.sizes, self.examples = [config.slots], config.examples
        self.longest = self.cost(config.slots)

    def cost(self, size: int) -> int:
        return size + 1

    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        values, asked = self.config.values, self.config.asked
        first_question = len(SPECIAL) + size * values
        first_answer = first_question + size**asked
        slots_NS = np.broadcast_to(np.arange(size), (number, size))
        values_NS = generator.integers(0, values, (number, size))  # of slot 0, 1, …
        order_NS, named_NS = (generator.permuted(slots_NS, axis=1) for _ in range(2))
        shown_NS = order_NS * values + np.take_along_axis(values_NS, order_NS, axis=1)
        named_NA = named_NS[:, :asked]
        held_NA = np.take_along_axis(values_NS, named_NA, axis=1)
        digits_A = np.arange(asked)[::-1]
        question_N = first_question + named_NA @ size**digits_A
        answer_N = first_answer + held_NA @ values**digits_A
        return np.column_stack((len(SPECIAL) + shown_NS, question_N, answer_N))

    def trivial(self, split: str) -> dict[str, float]:
        """All combinations of values are equally likely."""
        answers = self.config.values**self.config.asked
        return {"loss": math.log(answers), "accuracy": 1 / answers}


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
