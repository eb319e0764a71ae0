"""How is this word said? Letters to phones, on the CMU Pronouncing Dictionary or a user's own.

A random split would ask for `runners` after teaching `runner`. Words are therefore split by their
stem (`stem` in `data/cmudict.py`): a hash of the stem puts 90 % of the stems in train, 5 % in
valid, 5 % in test, so no word that is asked shares its stem with one that was taught.
`split: word` hashes the word itself, as most published numbers do.

A model reads the letters and EOS, and writes phones. Its loss is that of a word's first
pronunciation; its answers are scored against all of them (`scoring.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ablations.tasks.batching import Padded, unigram_loss
from ablations.tasks.data import cmudict
from ablations.tasks.data.cmudict import from_files
from ablations.tasks.data.tokens import Vocabulary
from ablations.tasks.scoring import METRICS, each_right, nearest, score, some_of_each
from ablations.tasks.task import (
    TASK,
    Budget,
    Decode,
    Example,
    Metric,
    Score,
    Task,
    bad_sizes,
    missing_files,
    too_large,
)
from model.batch import BOS, EOS, Batch
from model.config import ConfigError
from model.generate import Question, greedy

SPLITS = {"train": "words", "valid": "valid_words", "test": "test_words"}  # and their sizes


@TASK.register("g2p")
class G2P(Task):
    """Grapheme to phoneme."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        words: int | None = None
        """Training words; null takes all. A smaller choice is contained in a larger one. Of files
        of your own, so many at most."""
        valid_words: int | None = None
        test_words: int | None = None
        split: Literal["stem", "word"] = "stem"
        """What decides the side of the split that a word falls on, if no files are given."""
        stress: bool = False
        """Whether vowels keep their stress: AH0, AH1 and AH2, or AH."""
        pronunciations: Literal["first", "all"] = "first"
        """Of a training word: its first, or each as an example of its own."""
        train: str | None = None
        """A user's own dictionaries (`data/dictionary.py`): all three, or none."""
        valid: str | None = None
        test: str | None = None

        def __post_init__(self) -> None:
            problems = bad_sizes(self, SPLITS.values(), "all words")
            fix = "files go together; give train, valid and test, or none"
            if problems := problems + missing_files(self, tuple(SPLITS), fix):
                raise ConfigError(problems)

    kind: ClassVar[str] = "encoder_decoder"
    metrics: ClassVar[dict[str, Metric]] = METRICS
    files: ClassVar[tuple[str, ...]] = tuple(SPLITS)

    def __init__(self, config: Config) -> None:
        sizes = {split: getattr(config, option) for split, option in SPLITS.items()}
        self.config = config
        if config.train is None:
            self.dictionary = cmudict.dictionary(config.split, sizes, config.stress)
        else:
            paths = {split: getattr(config, split) for split in SPLITS}
            self.dictionary = from_files(paths, sizes, config.stress)
        self.words = self.dictionary.words
        problems = [
            problem
            for split, size in sizes.items()
            for problem in too_large(SPLITS[split], size, split, len(self.words[split]), "words")
        ]
        if problems and config.train is None:  # of a user's own words a size is the most
            raise ConfigError(problems)
        self.letters = Vocabulary(self.dictionary.letters)
        self.phones = Vocabulary(self.dictionary.phones)
        self.source_size, self.target_size = len(self.letters), len(self.phones)
        self.longest = 2 + self.dictionary.longest
        self._pairs: dict[str, Padded] = {}

    @cached_property
    def _digest(self) -> str:
        lines = ["\t".join(self.letters.names), "\t".join(self.phones.names), str(self.longest)]
        lines += [
            "\t".join((split, word, *self.dictionary.said[split][word]))
            for split, words in self.words.items()
            for word in words
        ]
        return sha256("\n".join(lines).encode()).hexdigest()

    def card(self) -> dict[str, Any]:
        return {
            "task": "g2p",
            "source": self.dictionary.source,
            "licence": self.dictionary.licence,
            "size": {split: len(words) for split, words in self.words.items()},
            "split": self.dictionary.rule,
            "stress": self.config.stress,
            "sha256": self.digest(),
        }

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        return self._taught.steps(seed, "g2p", budget, start)

    def evaluation_batches(self, split: str) -> list[Batch]:
        return self.pairs(split).batches

    def trivial(self, split: str) -> dict[str, float]:
        """The loss of counted phones and ends (add-one), and the scores of one answer to all.

        That answer is the most frequent phone, as many times as makes fewest edits in train.
        """
        taught_NT, phones_N = self._taught.target_NT, self._taught.lengths_N - 2
        loss = unigram_loss(taught_NT, self.pairs(split).target_NT, self.target_size)
        phone = EOS + 1 + int(torch.bincount(taught_NT.flatten())[EOS + 1 :].argmax())
        same_N = (taught_NT == phone).sum(dim=1)
        # Of k times one phone as many stay as the word has of it, and no position is free.
        edits = [
            int((phones_N.clamp(min=k) - same_N.clamp(max=k)).sum()) for k in range(self.longest)
        ]
        constant = [phone] * edits.index(min(edits))
        scores = score([constant] * len(self.words[split]), self._references(split))
        reached = {each.metric: each.value for each in scores if each.value is not None}
        return {"loss": loss, **reached}

    def ask(self, text: str) -> Question:
        word = self._spelt(text)
        wrong = " ".join(sorted(set(word) - set(self.dictionary.letters)))
        if wrong or not word:
            problem = f"has {wrong!r}" if wrong else "is empty"
            raise ValueError(
                f"the word {text!r} {problem}: write it with {self.dictionary.alphabet} only"
            )
        return Question(torch.tensor([self._source(word)]))

    def symbols(self, text: str) -> list[str]:
        return [*self._spelt(text), "end"]

    def _spelt(self, text: str) -> str:
        """In small letters, where the dictionary has no others."""
        has_capitals = any(letter != letter.lower() for letter in self.dictionary.letters)
        return text if has_capitals else text.lower()

    def tell(self, tokens: Sequence[int]) -> str:
        return " ".join(self.phones.decode(tokens))

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        outputs = self.pairs(split).answers(model, device, decode, self.longest - 1)
        references = self._references(split)
        close = list(map(nearest, outputs, references))
        examples = some_of_each(
            each_right(outputs, close),
            lambda i: (self.words[split][i], self.tell(close[i]), self.tell(outputs[i])),
        )
        return score(outputs, references), examples

    def _references(self, split: str) -> list[list[list[int]]]:
        said, encode = self.dictionary.said[split], self.phones.encode
        return [[encode(one.split()) for one in said[word]] for word in self.words[split]]

    def pairs(self, split: str) -> Padded:
        """The words of a split and their first pronunciations, as tensors."""
        self.check_split(split)
        if split not in self._pairs:
            self._pairs[split] = self._paired(split, 1)
        return self._pairs[split]

    @cached_property
    def _taught(self) -> Padded:
        if self.config.pronunciations == "first":
            return self.pairs("train")
        return self._paired("train", None)

    def _paired(self, split: str, pronunciations: int | None) -> Padded:
        """The words of a split with so many of their pronunciations, or with all."""
        words, said = self.words[split], self.dictionary.said[split]
        # Lists of ids would take twice the time of bytes, most of it in the garbage collector.
        pack = bytes if max(len(self.letters), len(self.phones)) <= 256 else tuple
        return Padded(
            [pack(self._source(word)) for word in words for _ in said[word][:pronunciations]],
            [pack(self._target(one)) for word in words for one in said[word][:pronunciations]],
        )

    def _source(self, word: str) -> list[int]:
        """What a model reads: the letters, then EOS, so that it knows the end of a word."""
        return [*self.letters.encode(word), EOS]

    def _target(self, said: str) -> list[int]:
        return [BOS, *self.phones.encode(said.split()), EOS]
