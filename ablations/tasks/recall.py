"""What was the value of this key? Padded are shown, then filler, then one of the keys.

    3=1 5=0 2=7  .4 .0 .2 … .1  5  →  =0

Every key is shown at most once. The number of filler tokens is the distance over which the answer
must be carried (associative recall: Graves et al. 2014, Ba et al. 2016).

N: examples, K: keys, P: pairs that are shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import numpy as np

from ablations.tasks.data.vocabulary import SPECIAL, Vocabulary
from ablations.tasks.generated import Lookup, too_few
from ablations.tasks.task import TASK
from model.config import ConfigError, too_small

FILLERS = 8  # different ones: what stands between is not one and the same token


@TASK.register("recall")
class Recall(Lookup):
    """Associative recall over a distance that is chosen."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        keys: int = 16
        values: int = 8
        pairs: int = 8
        """How many are shown."""
        distance: int = 16
        """Filler tokens between the pairs and the question."""
        test_distances: list[int] = field(default_factory=list)
        """Where answers are graded apart, also past the training distance."""
        tokens: Literal["one", "two"] = "one"
        """Whether a pair is one token, or a key and then its value: then a model must also learn
        that they belong together."""
        examples: int = 1000
        """Questions that are asked; as many at each test distance."""

        def __post_init__(self) -> None:
            problems = too_small(self, keys=1, values=2, pairs=1, distance=0, examples=1)
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
            if problems:
                raise ConfigError(problems)

    name = "recall"
    coordinate: ClassVar[str] = "distance"

    def __init__(self, config: Config) -> None:
        keys, values = range(config.keys), range(config.values)
        self.config = config
        self.joined = config.tokens == "one"
        together = [f"{key}={value}" for key in keys for value in values] if self.joined else []
        fillers = [f".{filler}" for filler in range(FILLERS)]
        apart = [*(f"={value}" for value in values), *map(str, keys)]
        self.vocabulary = Vocabulary([*apart, *fillers, *together])
        self.target_size = len(self.vocabulary)
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
        """Every value is as likely."""
        return {"loss": math.log(self.config.values), "accuracy": 1 / self.config.values}
