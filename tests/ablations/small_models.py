"""Settings of small models that write, and a task that is only as large as they must know."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ablations.tasks.task import Task
from model.batch import EOS, Batch
from model.generate import Decoding

TEXT: Any = SimpleNamespace(source_size=None, target_size=13, per="token")
PAIRS: Any = SimpleNamespace(source_size=11, target_size=13, per="token")


def transformer(mixer: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """One block of a decoder, its products in the open; with this mixer in it."""
    model = {"name": "transformer", "kind": "decoder", "d_model": 8, "n_heads": 2, "depth": 1}
    model |= {"max_len": 64, "path": {"name": "explicit"}}
    return {"model": {**model, **({"mixer": mixer} if mixer else {}), **changes}, "seed": 0}


class Says(nn.Module):
    """Writes to each source what it is told to, from the tokens of the source alone."""

    def __init__(self, size: int, answer: Callable[[list[int]], list[int]]) -> None:
        super().__init__()
        self.size, self.answer = size, answer

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor, lengths_B: Tensor | None
    ) -> Decoding:
        assert len(source_BS) == sequences
        rows = [self.answer([x for x in row if x > EOS]) for row in source_BS.tolist()]
        padded = [(row + [EOS] * capacity)[:capacity] for row in rows]
        return Decoding(0, (torch.tensor(padded),))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        next_B = decoding.states[0][:, decoding.start]
        logits_B1V = nn.functional.one_hot(next_B, self.size).float()[:, None]
        return logits_B1V, Decoding(decoding.start + 1, decoding.states)


class Given(Task):
    """These batches, to whoever asks for this split."""

    kind: ClassVar[str] = "decoder"
    source_size = 9

    def __init__(self, *batches: Batch, split: str = "test") -> None:
        self.batches, self.split = list(batches), split

    def evaluation_batches(self, split: str) -> list[Batch]:
        assert split == self.split
        return self.batches
