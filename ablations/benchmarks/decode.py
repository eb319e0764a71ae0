"""How long it takes to write: the next token after so many, or a whole text of so many.

B: sequences, T: positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ablations.measurement import MEASUREMENT, Benchmark, Metric, Place
from ablations.tasks.task import Task
from model.batch import BOS
from model.build import build
from model.generate import Decoding, Generator
from model.layers import evaluating

KEPT, ANEW = "kept", "anew"  # what is known of earlier tokens: kept, or read again for each token
SOURCE = 16  # tokens, where a task has a source


@MEASUREMENT.register("decode")
class Decode(Benchmark):
    """One more token after `position` others.

    `cache: anew` reads all of them for it, which is also what a prompt of that length takes.
    """

    metrics: ClassVar = {
        "latency": Metric("s", "lower", "time of the next token", repeats="processes")
    }
    places: ClassVar = {"position": [32], "batch": [1], "cache": [KEPT]}
    words: ClassVar = {"cache": (KEPT, ANEW)}
    along = "position"

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        position, batch = int(at["position"]), int(at["batch"])
        model, begin, tokens_BT = _writer(config, task, device, position + 1, batch)
        with evaluating(model), torch.inference_mode():
            empty = begin()
            after = empty
            if at["cache"] == KEPT and position:
                _, after = model.step(tokens_BT[:, :position], empty)
        given_BT = tokens_BT[:, -1:] if at["cache"] == KEPT else tokens_BT

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                model.step(given_BT, after)

        return call


@MEASUREMENT.register("generation")
class Generation(Benchmark):
    """A text of `length` tokens from nothing, the likeliest token each time and no early end; what
    is written is not looked at on the way, so that a device is never waited for."""

    metrics: ClassVar = {
        "generation_time": Metric("s", "lower", "time of a text", repeats="processes")
    }
    places: ClassVar = {"length": [64], "batch": [1], "cache": [KEPT]}
    words: ClassVar = {"cache": (KEPT, ANEW)}

    def prepare(
        self, config: dict[str, Any], task: Task, device: torch.device, at: Place
    ) -> Callable[[], None]:
        length, batch = int(at["length"]), int(at["batch"])
        model, begin, tokens_BT = _writer(config, task, device, length, batch)

        def kept() -> None:
            decoding, next_B1 = begin(), tokens_BT[:, :1]
            for _ in range(length):
                logits_BTV, decoding = model.step(next_B1, decoding)
                next_B1 = logits_BTV[:, -1:].argmax(-1)

        def anew() -> None:
            written_BT = tokens_BT[:, :1]
            for _ in range(length):
                logits_BTV, _ = model.step(written_BT, begin())
                written_BT = torch.cat((written_BT, logits_BTV[:, -1:].argmax(-1)), dim=1)

        def call() -> None:
            with evaluating(model), torch.inference_mode():
                (kept if at["cache"] == KEPT else anew)()

        return call


def _writer(
    config: dict[str, Any], task: Task, device: torch.device, capacity: int, batch: int
) -> tuple[Any, Callable[[], Decoding], Tensor]:
    """A model, how it begins, and tokens for it to go on from."""
    model = build(config["model"], task.source_size, task.target_size, config["seed"]).to(device)
    writer: Generator = model  # type: ignore[assignment]
    generator = torch.Generator().manual_seed(0)

    def tokens(size: int, length: int) -> Tensor:
        return torch.randint(BOS, size, (batch, length), generator=generator).to(device)

    source = None if task.source_size is None else tokens(task.source_size, SOURCE)
    given_BT = tokens(task.target_size, capacity)
    return model, lambda: writer.begin(batch, capacity, source, None), given_BT
