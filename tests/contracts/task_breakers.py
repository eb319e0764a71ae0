"""Tasks that each break one contract, to prove that the contract can fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import numpy as np
import torch
from task_answer_checks import (
    can_be_asked_in_its_own_words,
    declares_its_metrics,
    gives_a_perfect_answer_the_best_score,
    has_a_card,
    has_a_trivial_answer,
    leaves_the_mode_of_a_model,
    refuses_nonsense,
    scores_what_it_declares,
)
from task_batch_checks import (
    Check,
    asks_every_example_once,
    asks_nothing_that_was_taught,
    can_be_learned,
    fits_what_it_declares,
    follows_the_files_it_is_given,
    goes_on_where_it_was,
    is_cheap_to_build,
    is_told_by_its_digest,
    names_its_splits,
    teaches_by_the_seed_alone,
)
from torch import nn

from ablations.tasks.g2p import G2P
from ablations.tasks.pair import Pair
from ablations.tasks.strings import Copy
from ablations.tasks.task import Budget, Decode, Example, Metric, Score
from ablations.tasks.text import Text
from model.batch import Batch
from model.generate import Question, greedy

BROKEN: list[tuple[Check, str, Any, str]] = []
Steps = Iterator[tuple[Batch, ...]]


def breaks(check: Check, sentence: str) -> Any:
    """Enter a task as one that must fail `check` with these words, in place of its parent."""

    def enter(part: Any) -> Any:
        name = part.__mro__[1].__name__.lower()
        BROKEN.append((check, name, part, sentence))
        return part

    return enter


# Data


@breaks(is_cheap_to_build, "makes batches, which a plan never looks at")
class MakesBatchesAtOnce(Copy):
    def __init__(self, config: Copy.Config) -> None:
        super().__init__(config)
        self.evaluation_batches("valid")


@breaks(is_told_by_its_digest, "differs from one build to another")
class HasANewDigestEachTime(Copy):
    numbers: ClassVar = count()

    def digest(self) -> str:
        return f"{next(self.numbers):064}"


@breaks(is_told_by_its_digest, "does not tell symbols=16 from 9")
class HasOneDigestForAll(Copy):
    def digest(self) -> str:
        return "0" * 64


@breaks(follows_the_files_it_is_given, "is blind to what is in file")
class LooksAtTheLengthAlone(Text):
    def digest(self) -> str:
        return str([len(text) for text in self.texts.values()])


@breaks(follows_the_files_it_is_given, "changes with the folder of a file")
class LooksAtThePath(Text):
    def digest(self) -> str:
        return super().digest() + str(self.config.file)


@breaks(goes_on_where_it_was, "with start=1 does not go on")
class StartsOver(Copy):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        return super().steps(seed, budget, 0)


@breaks(goes_on_where_it_was, "with start=12 does not go on")
class ForgetsTheEpoch(Text):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        return super().steps(seed, budget, start % 10)


@breaks(teaches_by_the_seed_alone, "gives another seed the same batches")
class IgnoresTheSeed(Copy):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        return super().steps(0, budget, start)


@breaks(teaches_by_the_seed_alone, "draws from the generators of others")
class DrawsFromTheGlobalGenerator(Copy):
    def draw(self, generator: np.random.Generator, number: int, size: int) -> np.ndarray:
        np.random.rand()
        return super().draw(generator, number, size)


@breaks(teaches_by_the_seed_alone, "gives two models of one seed other batches")
class ChangesOnceItWasAsked(Copy):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        return super().steps(seed, budget, start + len(self._asked))


@breaks(teaches_by_the_seed_alone, "gives the same batch at every step")
class NeverMovesOn(Copy):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        first = next(super().steps(seed, budget))
        while True:
            yield first


@breaks(asks_every_example_once, "asks 80 examples of valid, of 100 on its card")
class LeavesTheLastBatchOut(Copy):
    def evaluation_batches(self, split: str) -> list[Batch]:
        return super().evaluation_batches(split)[:-1]


@breaks(asks_every_example_once, "in other batches the second time")
class AsksInAnotherOrder(Copy):
    turns: ClassVar = count()

    def evaluation_batches(self, split: str) -> list[Batch]:
        return super().evaluation_batches(split)[:: (-1) ** next(self.turns)]


@breaks(asks_nothing_that_was_taught, "of its examples in another split too")
class AsksWhatItTaught(Copy):
    def asked(self, split: str) -> list[np.ndarray]:
        return super().asked("train")


@breaks(names_its_splits, "answers an unknown split with 'nothing'")
class TakesAnySplit(Copy):
    def evaluation_batches(self, split: str) -> list[Batch]:
        return super().evaluation_batches(split if split in ("train", "test") else "valid")


@breaks(fits_what_it_declares, "longest is 5, yet")
class IsLongerThanItSays(Copy):
    def __init__(self, config: Copy.Config) -> None:
        super().__init__(config)
        self.longest = 5


@breaks(fits_what_it_declares, r"source_size is \d+, too small")
class HasMoreSymbolsThanItSays(Copy):
    def __init__(self, config: Copy.Config) -> None:
        super().__init__(config)
        self.source_size = self.target_size - 1


@breaks(fits_what_it_declares, "kind is decoder, batches have")
class IsOfAnotherKind(Copy):
    kind = "decoder"


@breaks(can_be_learned, "teaches nothing that is asked")
class TeachesTheWrongAnswers(Copy):
    def steps(self, seed: int, budget: Budget, start: int = 0) -> Steps:
        for parts in super().steps(seed, budget, start):
            yield tuple(replace(part, labels=torch.zeros_like(part.labels)) for part in parts)


# Answers


@breaks(has_a_trivial_answer, "has no loss")
class KnowsNoTrivialLoss(Copy):
    def trivial(self, split: str) -> dict[str, float]:
        return {"sequence_accuracy": 0.0}


@breaks(has_a_trivial_answer, "names {'luck'}, which `metrics` has not")
class NamesAnUnknownMetric(Copy):
    def trivial(self, split: str) -> dict[str, float]:
        return {"loss": 1.0, "luck": 0.5}


@breaks(declares_its_metrics, "gives accuracy no unit")
class HasNoUnit(Pair):
    metrics: ClassVar = {"accuracy": Metric("", "higher", "accuracy")}


@breaks(scores_what_it_declares, "differ in {'accuracy'}")
class LeavesAMetricOut(Pair):
    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {}


@breaks(scores_what_it_declares, "neither a value nor a reason")
class GivesNoReason(Pair):
    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        _, examples = super().scores(model, split, device, decode)
        return [Score("accuracy", None)], examples


@breaks(scores_what_it_declares, "differ the second time")
class ScoresByChance(Pair):
    turns: ClassVar = count()

    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {"accuracy": float(next(self.turns))}


@breaks(leaves_the_mode_of_a_model, "leaves another mode")
class LeavesItEvaluating(Pair):
    def answers(self, model: nn.Module, *rest: Any) -> list[list[int]]:
        return super().answers(model.eval(), *rest)


@breaks(leaves_the_mode_of_a_model, "asks with dropout awake")
class AsksInTraining(Pair):
    def answers(self, model: nn.Module, rows_NW: np.ndarray, *_: Any) -> list[list[int]]:
        return model(self.batch(rows_NW))[:, -1:].argmax(dim=-1).tolist()


@breaks(gives_a_perfect_answer_the_best_score, "gives a perfect answer accuracy 0.5, not 1.0")
class GrudgesHalf(Pair):
    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {"accuracy": super().grade(outputs, truths)["accuracy"] / 2}


@breaks(gives_a_perfect_answer_the_best_score, "gives silence the same accuracy")
class PraisesAll(Pair):
    def grade(self, outputs: list[list[int]], truths: list[list[int]]) -> dict[str, float]:
        return {"accuracy": 1.0}


@breaks(has_a_card, "does not say licence")
class HidesItsLicence(Pair):
    def card(self) -> dict[str, Any]:
        return {key: value for key, value in super().card().items() if key != "licence"}


@breaks(has_a_card, "has another digest")
class ShowsAnothersDigest(Pair):
    def card(self) -> dict[str, Any]:
        return {**super().card(), "sha256": "0" * 64}


@breaks(can_be_asked_in_its_own_words, "as something else")
class ReadsBackwards(G2P):
    def ask(self, text: str) -> Question:
        return super().ask(text[::-1])


@breaks(can_be_asked_in_its_own_words, r"gives \d+ symbols of \d+ tokens")
class ForgetsTheEnd(G2P):
    def symbols(self, text: str) -> list[str]:
        return list(text)


@breaks(can_be_asked_in_its_own_words, "where .* is the answer")
class TellsBackwards(G2P):
    def tell(self, tokens: Sequence[int]) -> str:
        return super().tell(tokens if self.asked_by_scores else tokens[::-1])

    asked_by_scores = False

    def scores(self, *asked: Any) -> tuple[list[Score], list[Example]]:
        self.asked_by_scores = True
        found = super().scores(*asked)
        self.asked_by_scores = False
        return found


@breaks(refuses_nonsense, "takes '.*' for a question")
class TakesAnything(Pair):
    def ask(self, text: str) -> Question:
        return Question(prompt=torch.tensor([[5]]))


@breaks(refuses_nonsense, "refuses in more than one line")
class RefusesAtLength(Pair):
    def ask(self, text: str) -> Question:
        raise ValueError(f"no such question:\n{text}")
