"""A task small enough to be trained on in milliseconds: write the digits backwards.

As a program it trains in the folder that it is given, and kills itself when it is told to.
"""

from __future__ import annotations

import math
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from ablations.store.record import Record
from ablations.store.results import Results
from ablations.tasks.batching import Padded
from ablations.tasks.task import Budget, Example, Metric, Score, Task
from ablations.train.checkpoint import Checkpointer, save_weights
from ablations.train.config import TrainConfig
from ablations.train.loop import train
from model.batch import BOS, EOS, IGNORE, Batch
from model.build import build
from model.layers import evaluating

DIGITS = 5
SIZES = {"train": 120, "valid": 24, "test": 24}


class Backwards(Task):
    """From one to seven digits, and the same from the last to the first."""

    kind: ClassVar[str] = "encoder_decoder"
    source_size = target_size = 3 + DIGITS
    longest = 9
    metrics: ClassVar[dict[str, Metric]] = {"error": Metric("errors/label", "lower", "errors")}

    def __init__(self) -> None:
        drawn = random.Random(0)
        self.pairs = {}
        for split, size in SIZES.items():
            numbers = [
                [3 + drawn.randrange(DIGITS) for _ in range(1 + drawn.randrange(7))]
                for _ in range(size)
            ]
            targets = [[BOS, *reversed(number), EOS] for number in numbers]
            self.pairs[split] = Padded([[*number, EOS] for number in numbers], targets)

    def steps(self, seed: int, budget: Budget, start: int = 0) -> Iterator[tuple[Batch, ...]]:
        return self.pairs["train"].steps(seed, "backwards", budget, start)

    def evaluation_batches(self, split: str) -> list[Batch]:
        pairs = self.pairs[split]
        return [pairs.batch(rows_B) for rows_B in pairs.by_length(100)]

    def scores(
        self, model: nn.Module, split: str, device: Any, decode: Any = None
    ) -> tuple[list[Score], list[Example]]:
        """Labels that are not the likeliest; no example is shown."""
        batches = self.evaluation_batches(split)
        with evaluating(model), torch.inference_mode():
            wrong = [(model(b).argmax(-1) != b.labels)[b.labels != IGNORE].sum() for b in batches]
        return [Score("error", int(sum(wrong)) / sum(batch.tokens for batch in batches))], []

    def trivial(self, split: str) -> dict[str, float]:
        return {"loss": math.log(DIGITS + 1)}


class Upwards(Backwards):
    """A decoder's: each digit is one more than the one before it."""

    kind: ClassVar[str] = "decoder"
    source_size = None
    longest = 16

    def __init__(self) -> None:
        drawn = random.Random(1)
        self.pairs = {
            split: Padded(None, [_count(drawn) for _ in range(size)])
            for split, size in SIZES.items()
        }


def _count(drawn: random.Random) -> list[int]:
    first, length = drawn.randrange(DIGITS), 1 + drawn.randrange(14)
    return [BOS, *(3 + (first + more) % DIGITS for more in range(length)), EOS]


def small_model(seed: int = 0, **options: Any) -> nn.Module:
    choice = {"name": "transformer", "kind": "encoder_decoder", "d_model": 8, "depth": 1}
    size = Backwards.target_size
    return build({**choice, "n_heads": 2, "max_len": 16, **options}, size, size, seed)


def train_in(folder: Path, death: float = math.inf) -> None:
    """Train with all there is to be kept, and keep it after every step; die at that fraction."""

    def report(fraction: float, note: str) -> None:
        if fraction >= death:
            os.kill(os.getpid(), signal.SIGKILL)

    results, model = Results(folder), small_model(1, dropout=0.2, tied="all")
    config = TrainConfig(steps=30, batch_tokens=60, micro_batches=2, average=0.9, select="best")
    keeper = Checkpointer(results.unfinished("small"), {}, seconds=0.0)
    training = train(model, Backwards(), config, 1, torch.device("cpu"), report, keeper)
    save_weights(model, results.weights("small"), {"trial": "small", "code": "1"})
    results.write(Record("small", training.status, {}, measurements=training.measurements))


if __name__ == "__main__":
    torch.set_num_threads(1)
    train_in(Path(sys.argv[1]), float(sys.argv[2]))
