"""Grapheme to phoneme: letters to phones, on the CMU Pronouncing Dictionary or a user's own.

A random split would ask for `runners` after teaching `runner`. Words are therefore split by their
stem (`stem` in `data/cmudict.py`): a hash of the stem puts 90 % of the stems in train, 5 % in
valid, 5 % in test, so no test word shares its stem with a training word.
`split: word` hashes the word itself, as most published numbers do.

A model reads the letters and EOS, and writes phones. Its loss is that of a word's first
pronunciation; its answers are scored against all of them (`scoring.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from ablations.tasks.batching import Padded, PaddedTask, unigram_loss
from ablations.tasks.data import cmudict
from ablations.tasks.data.tokens import Vocabulary
from ablations.tasks.scoring import METRICS, each_right, nearest, score, some_of_each
from ablations.tasks.task import (
    TASK,
    Decode,
    Example,
    Metric,
    Score,
    check_sizes,
    cut_to_size,
    missing_files,
)
from model.batch import BOS, EOS
from model.config import Checked
from model.generate import Question, greedy

SPLITS = {"train": "words", "valid": "valid_words", "test": "test_words"}  # and their sizes


@TASK.register("g2p")
class G2P(PaddedTask):
    """Grapheme to phoneme."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        words: int | None = None
        """Training words, at most; null takes all. A larger choice contains a smaller one."""
        valid_words: int | None = None
        test_words: int | None = None
        split: Literal["stem", "word"] = "stem"
        """The key that is hashed to assign a word to a split, if no files are given."""
        stress: bool = False
        """Whether vowels keep their stress: AH0, AH1 and AH2, or AH."""
        pronunciations: Literal["first", "all"] = "first"
        """Which pronunciations of a training word are examples."""
        train: str | None = None
        """A user's own dictionaries (`data/cmudict.py`): all three, or none."""
        valid: str | None = None
        test: str | None = None

        def problems(self) -> list[str]:
            fix = "files go together; give train, valid and test, or none"
            sizes = check_sizes(self, SPLITS.values(), "all words")
            return sizes + missing_files(self, tuple(SPLITS), fix)

    name = "g2p"
    kind: ClassVar[str] = "encoder_decoder"
    metrics: ClassVar[dict[str, Metric]] = METRICS
    files: ClassVar[tuple[str, ...]] = tuple(SPLITS)

    def __init__(self, config: Config) -> None:
        self.config = config
        if config.train is None:
            sizes = {split: getattr(config, option) for split, option in SPLITS.items()}
            self.dictionary = cmudict.dictionary(config.split, sizes, config.stress)
        else:
            paths = {split: getattr(config, split) for split in SPLITS}
            self.dictionary = cmudict.from_files(paths, config.stress)
        is_own = config.train is not None
        self.words = cut_to_size(self.dictionary.words, config, SPLITS, "words", is_own)
        self.input_tokens = self.letters = Vocabulary(self.dictionary.letters)
        self.output_tokens = self.phones = Vocabulary(self.dictionary.phones)
        self.source_size, self.target_size = len(self.letters), len(self.phones)
        self.longest = 2 + self.dictionary.longest

    @cached_property
    def taught(self) -> Padded:
        if self.config.pronunciations == "first":
            return self.pairs("train")
        return Padded(*self.sequences("train", None))

    def sequences(
        self, split: str, pronunciations: int | None = 1
    ) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
        """The words of a split with so many of their pronunciations, or with all."""
        words, said = self.words[split], self.dictionary.said[split]
        # Lists of ids would take twice the time of bytes, most of it in the garbage collector.
        pack = bytes if max(len(self.letters), len(self.phones)) <= 256 else tuple
        return (
            [pack(self._source(word)) for word in words for _ in said[word][:pronunciations]],
            [pack(self._target(one)) for word in words for one in said[word][:pronunciations]],
        )

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

    def trivial(self, split: str) -> dict[str, float]:
        """The loss of phone frequencies (add-one), and the scores of one constant answer.

        It repeats the most frequent phone as often as makes the fewest edits.
        """
        taught_NT, phones_N = self.taught.target_NT, self.taught.lengths_N - 2
        loss = unigram_loss(taught_NT, self.pairs(split).target_NT, self.target_size)
        phone = EOS + 1 + int(torch.bincount(taught_NT.flatten())[EOS + 1 :].argmax())
        same_N = (taught_NT == phone).sum(dim=1)
        # Edits from k of these phones to a word: max(k, its length) − min(k, its own such phones).
        edits = [
            int((phones_N.clamp(min=k) - same_N.clamp(max=k)).sum()) for k in range(self.longest)
        ]
        constant = [phone] * edits.index(min(edits))
        scores = score([constant] * len(self.words[split]), self._references(split))
        return {"loss": loss} | {s.metric: s.value for s in scores if s.value is not None}

    def ask(self, text: str) -> Question:
        has_capitals = any(letter != letter.lower() for letter in self.dictionary.letters)
        word = text if has_capitals else text.lower()
        wrong = " ".join(sorted(set(word) - set(self.dictionary.letters)))
        if wrong or not word:
            problem = f"has {wrong!r}" if wrong else "is empty"
            raise ValueError(
                f"the word {text!r} {problem}: write it with {self.dictionary.alphabet} only"
            )
        return Question(torch.tensor([self._source(word)]))

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        outputs = self.pairs(split).answers(model, device, decode, self.longest - 1)
        references = self._references(split)
        close = list(map(nearest, outputs, references))
        texts = self.words[split], map(self.to_text, close), map(self.to_text, outputs)
        return score(outputs, references), some_of_each(each_right(outputs, close), *texts)

    def _references(self, split: str) -> list[list[list[int]]]:
        said, encode = self.dictionary.said[split], self.phones.encode
        return [[encode(one.split()) for one in said[word]] for word in self.words[split]]

    def _source(self, word: str) -> list[int]:
        """The input of a model: the letters, then EOS."""
        return [*self.letters.encode(word), EOS]

    def _target(self, said: str) -> list[int]:
        return [BOS, *self.phones.encode(said.split()), EOS]
