"""What do these slots hold, in this order? Two places, or more, to look at from one position.

    3=1 0=5 2=1 1=7  2,1  →  =1,7

The slots come in any order and the question is one token, so that all places must be found from
there. A head hands over one average of what it attends to; two heads hand over two. One head can
still do it, if it is wide enough or learns to weigh the places unequally.

N: examples, S: slots, A: those that are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from ablations.tasks.data.vocabulary import SPECIAL, Vocabulary
from ablations.tasks.generated import Lookup, too_few
from ablations.tasks.task import TASK
from model.config import ConfigError, too_small

MOST_TOKENS = 20_000


@TASK.register("pair")
class Pair(Lookup):
    """Two lookups at once, or as many as are asked for."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        slots: int = 8
        values: int = 8
        """What a slot may hold; an answer is one token for all values."""
        asked: int = 2
        """Slots that are asked for at once."""
        examples: int = 1000
        """Questions that are asked."""

        def __post_init__(self) -> None:
            problems = too_small(self, slots=2, values=2, asked=1, examples=1)
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
            if problems:
                raise ConfigError(problems)

    name = "pair"
    coordinate: ClassVar[str] = "slots"

    def __init__(self, config: Config) -> None:
        slots, values = range(config.slots), range(config.values)
        self.config = config
        held = [f"{slot}={value}" for slot in slots for value in values]
        asked = [f"{_listed(each)}?" for each in product(slots, repeat=config.asked)]
        said = [f"={_listed(each)}" for each in product(values, repeat=config.asked)]
        self.vocabulary = Vocabulary([*held, *asked, *said])
        self.target_size = len(self.vocabulary)
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
        told_NA = np.take_along_axis(values_NS, named_NA, axis=1)
        digits_A = np.arange(asked)[::-1]
        question_N = first_question + named_NA @ size**digits_A
        answer_N = first_answer + told_NA @ values**digits_A
        return np.column_stack((len(SPECIAL) + shown_NS, question_N, answer_N))

    def trivial(self, split: str) -> dict[str, float]:
        """All values together are as likely."""
        answers = self.config.values**self.config.asked
        return {"loss": math.log(answers), "accuracy": 1 / answers}


def _listed(numbers: tuple[int, ...]) -> str:
    return ",".join(map(str, numbers))
