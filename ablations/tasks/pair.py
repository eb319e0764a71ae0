"""What do these two slots hold, in this order? Two places to look at from one position.

    3=1 0=5 2=1 1=7  2,1  →  =1,7

The slots come in any order and the question is one token, so that both places must be found from
there. A head hands over one average of what it attends to; two heads hand over two. One head can
still do it, if it is wide enough or learns to weigh the two places unequally.

N: examples, S: slots, 2: those that are asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np

from ablations.tasks.data.vocabulary import SPECIAL, Vocabulary
from ablations.tasks.generated.lookup import Lookup
from ablations.tasks.generated.rows import too_few
from ablations.tasks.task import TASK
from model.config import ConfigError, too_small


@TASK.register("pair")
class Pair(Lookup):
    """Two lookups at once."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        slots: int = 8
        values: int = 8
        """What a slot may hold; an answer is one token for both values."""
        examples: int = 1000
        """Questions that are asked."""

        def __post_init__(self) -> None:
            problems = too_small(self, slots=2, values=2, examples=1)
            if not problems:
                held = math.factorial(self.slots) * self.values**self.slots
                shown = held * math.perm(self.slots, 2)
                problems = too_few(self, "slots", shown, "different questions", "slots or values")
            if problems:
                raise ConfigError(problems)

    name = "pair"
    coordinate: ClassVar[str] = "slots"

    def __init__(self, config: Config) -> None:
        slots, values = range(config.slots), range(config.values)
        self.config = config
        held = [f"{slot}={value}" for slot in slots for value in values]
        asked = [f"{a},{b}?" for a, b in product(slots, repeat=2)]
        said = [f"={a},{b}" for a, b in product(values, repeat=2)]
        self.vocabulary = Vocabulary([*held, *asked, *said])
        self.target_size = len(self.vocabulary)
        self.sizes, self.examples = [config.slots], config.examples
        self.longest = self.cost(config.slots)

    def cost(self, size: int) -> int:
        return size + 1

    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        values = self.config.values
        first_question = len(SPECIAL) + size * values
        first_answer = first_question + size**2
        slots_NS = np.broadcast_to(np.arange(size), (number, size))
        values_NS = generator.integers(0, values, (number, size))  # of slot 0, 1, …
        order_NS, named_NS = (generator.permuted(slots_NS, axis=1) for _ in range(2))
        shown_NS = order_NS * values + np.take_along_axis(values_NS, order_NS, axis=1)
        named_N2 = named_NS[:, :2]
        told_N2 = np.take_along_axis(values_NS, named_N2, axis=1)
        question_N = first_question + named_N2 @ [size, 1]
        answer_N = first_answer + told_N2 @ [values, 1]
        return np.column_stack((len(SPECIAL) + shown_NS, question_N, answer_N))

    def trivial(self, split: str) -> dict[str, float]:
        """Every pair of values is as likely."""
        pairs = self.config.values**2
        return {"loss": math.log(pairs), "accuracy": 1 / pairs}
