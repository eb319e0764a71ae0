"""How is this word said? Letters to phones, on the CMU Pronouncing Dictionary.

A random split would ask for `runners` after teaching `runner`. Words are therefore split by their
stem (`ablations.tasks.stem` says how it is found): a hash of the stem puts 90 % of the stems in
train, 5 % in valid, 5 % in test, so no word that is asked shares its stem with one that was taught.
`split: word` hashes the word itself, as most published numbers do.

A model reads the letters and EOS, and writes phones. It learns the first pronunciation of a word.
With greedy decoding it is scored against the nearest of all of them (`ablations.tasks.edits`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha256
from importlib.metadata import version
from typing import Any, ClassVar, Literal, cast

import torch
from torch import nn

from ablations.tasks.cmudict import choose, read
from ablations.tasks.edits import error_rates, nearest
from ablations.tasks.pairs import Pairs
from ablations.tasks.spelling import (
    SOURCE_SIZE,
    TARGET_SIZE,
    decode_phones,
    encode_phones,
    encode_target,
    encode_word,
)
from ablations.tasks.task import TASK, Metric, Task
from model.batch import EOS, Batch
from model.config import ConfigError
from model.generate import Generator, Question, greedy

SPLITS = {"train": "words", "valid": "valid_words", "test": "test_words"}  # and their options
EVALUATION_BATCH = 512
EXAMPLES = 6  # of the right answers, and as many of the wrong


@TASK.register("g2p")
class G2P(Task):
    """Grapheme to phoneme."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        words: int | None = None
        """Training words; null takes all. A smaller choice is contained in a larger one."""
        valid_words: int | None = None
        test_words: int | None = None
        split: Literal["stem", "word"] = "stem"
        """What decides the side of the split that a word falls on."""

        def __post_init__(self) -> None:
            sizes = {option: getattr(self, option) for option in SPLITS.values()}
            problems = [
                f"{option}={size}: must be at least 1, or null for all words"
                for option, size in sizes.items()
                if size is not None and size < 1
            ]
            if problems:
                raise ConfigError(problems)

    kind: ClassVar[str] = "encoder_decoder"
    metrics: ClassVar[dict[str, Metric]] = {
        "per": Metric("edits/phone", "lower", "phone error rate"),
        "wer": Metric("errors/word", "lower", "word error rate"),
    }
    source_size = SOURCE_SIZE
    target_size = TARGET_SIZE

    def __init__(self, config: Config) -> None:
        asked = {split: getattr(config, option) for split, option in SPLITS.items()}
        self.config = config
        self.longest = 2 + _longest()
        self.words = choose(config.split, **asked)
        self._pairs: dict[str, Pairs] = {}
        self._evaluation: dict[str, list[Batch]] = {}
        problems = [
            f"{SPLITS[split]}={size}: {split} has {len(self.words[split])} words; "
            "choose at most that, or null for all"
            for split, size in asked.items()
            if size is not None and size > len(self.words[split])
        ]
        if problems:
            raise ConfigError(problems)

    def digest(self) -> str:
        return self._digest

    @cached_property
    def _digest(self) -> str:
        said = read()
        lines = [
            "\t".join((split, word, *said[word]))
            for split, words in self.words.items()
            for word in words
        ]
        return sha256("\n".join(lines).encode()).hexdigest()

    def card(self) -> dict[str, Any]:
        return {
            "task": "g2p",
            "source": f"CMU Pronouncing Dictionary, from cmudict {version('cmudict')}",
            "licence": "BSD-2-Clause",
            "size": {split: len(words) for split, words in self.words.items()},
            "split": f"90 % train, 5 % valid, 5 % test by sha256 of the {self.config.split}",
            "sha256": self.digest(),
        }

    def train_batches(self, seed: int, batch_size: int) -> Iterator[Batch]:
        """Every word once an epoch: the last batch of an epoch is kept though it is smaller."""
        return self.pairs("train").endless(seed, "g2p", batch_size)

    def evaluation_batches(self, split: str) -> list[Batch]:
        if split not in self._evaluation:
            pairs = self.pairs(split)
            rows = pairs.by_length(EVALUATION_BATCH)
            self._evaluation[split] = [pairs.batch(rows_B) for rows_B in rows]
        return self._evaluation[split]

    def trivial_loss(self) -> float:
        """Each phone and EOS as likely as in train, counted once more than seen (add-one)."""
        train, valid = (self._label_counts(split) for split in ("train", "valid"))
        loss = -(valid * ((train + 1) / (train + 1).sum()).log()).sum() / valid.sum()
        return float(loss)

    def _label_counts(self, split: str) -> torch.Tensor:
        """How often EOS and each phone has to be predicted: the labels that there are."""
        target_NT = self.pairs(split).target_NT
        return torch.bincount(target_NT.flatten(), minlength=self.target_size)[EOS:].double()

    def ask(self, text: str) -> Question:
        return Question(torch.tensor([list(encode_word(text))]))

    def symbols(self, text: str) -> list[str]:
        return [*text, "end"]

    def tell(self, tokens: Sequence[int]) -> str:
        return decode_phones(tokens)

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str
    ) -> tuple[dict[str, float], list[dict[str, str]]]:
        outputs = self._answers(model, split, device)
        references = [[encode_phones(said) for said in read()[word]] for word in self.words[split]]
        close = [nearest(*both) for both in zip(outputs, references, strict=True)]
        per, wer = error_rates(outputs, close)
        right = [output == said for output, said in zip(outputs, close, strict=True)]
        examples = [
            {
                "input": self.words[split][index],
                "target": decode_phones(close[index]),
                "output": decode_phones(outputs[index]),
            }
            for index in _some_of_each(right)
        ]
        return {"per": per, "wer": wer}, examples

    def _answers(self, model: nn.Module, split: str, device: torch.device | str) -> list[list[int]]:
        """The phones that the model writes for each word of a split, in the order of the words."""
        pairs = self.pairs(split)
        answers: list[list[int]] = [[]] * len(pairs)
        batches = self.evaluation_batches(split)
        for rows_B, batch in zip(pairs.by_length(EVALUATION_BATCH), batches, strict=True):
            given = batch.to(device)
            assert given.source is not None
            generator = cast(Generator, model)
            question = Question(given.source, given.source_lengths)
            written = greedy(generator, question, self.longest - 1)
            for row, answer in zip(rows_B.tolist(), written, strict=True):
                answers[row] = answer.tokens
        return answers

    def pairs(self, split: str) -> Pairs:
        """The words of a split and their first pronunciations, as tensors."""
        if split not in self.words:
            raise ValueError(f"g2p has no split '{split}'. Choose from: {', '.join(self.words)}.")
        if split not in self._pairs:
            words, said = self.words[split], read()
            sources = [encode_word(word) for word in words]
            self._pairs[split] = Pairs(sources, [encode_target(said[word][0]) for word in words])
        return self._pairs[split]


@cache
def _longest() -> int:
    """The letters or phones of the longest word there is, so that no choice of words moves it."""
    phones = max(said.count(" ") + 1 for spoken in read().values() for said in spoken)
    return max(phones, max(map(len, read())))


def _some_of_each(right: Sequence[bool]) -> list[int]:
    """The first right and the first wrong words; if one kind is short, the other fills in."""
    kinds = [[index for index, each in enumerate(right) if each is kind] for kind in (True, False)]
    left_over = [max(0, EXAMPLES - len(kind)) for kind in reversed(kinds)]
    return sorted(
        index
        for kind, extra in zip(kinds, left_over, strict=True)
        for index in kind[: EXAMPLES + extra]
    )
