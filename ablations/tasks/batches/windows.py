"""A stream of tokens, cut into windows: in each, every token is predicted from those before it.

A window reads the token before its first one too, so that no token is left out; before the very
first stands BOS.

N: tokens of the stream, B: windows of a batch, T: tokens of a window and the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
import torch
from torch import Tensor

from ablations.tasks.task import Budget
from model.batch import BOS, Batch


class Windows:
    """Windows of `length` tokens; of the whole stream, where it is shorter."""

    def __init__(self, ids: Sequence[int], length: int) -> None:
        assert len(ids) > 0
        self.stream_N = torch.tensor([BOS, *ids], dtype=torch.int32)
        self.tokens = len(ids)
        self.length = min(length, len(ids))

    def in_order(self, tokens: int) -> list[Batch]:
        """Every token once, about so many in a batch; the last window holds what is left over."""
        whole = self.tokens // self.length
        starts_N = self.length * torch.arange(whole)
        batches = [
            self._batch(starts_B, self.length)
            for starts_B in starts_N.split(max(1, tokens // self.length))
        ]
        if left_over := self.tokens % self.length:
            batches.append(self._batch(torch.tensor([whole * self.length]), left_over))
        return batches

    def steps(
        self, seed: int, name: str, budget: Budget, start: int = 0
    ) -> Iterator[tuple[Batch, ...]]:
        """Epoch after epoch, each with its own order of windows and its own place for the first.

        That place is up to a window from the start of the stream, so that borders move; what lies
        before it and after the last whole window, less than two windows, is left out in that epoch.
        """
        count = max(1, self.tokens // self.length - 1)
        places = min(self.length, self.tokens - count * self.length + 1)
        part = max(1, budget.part // self.length)
        steps = -(-count // (part * budget.parts))
        epoch, first = divmod(start, steps)
        while True:
            digest = sha256(f"{seed} {name} {epoch}".encode()).digest()
            generator = np.random.default_rng(int.from_bytes(digest[:8], "big"))
            place = int(generator.integers(places))
            starts_N = torch.from_numpy(place + self.length * generator.permutation(count))
            for starts_B in starts_N.split(part * budget.parts)[first:]:
                yield tuple(self._batch(each_B, self.length) for each_B in starts_B.split(part))
            epoch, first = epoch + 1, 0

    def _batch(self, starts_B: Tensor, length: int) -> Batch:
        window_BT = self.stream_N[starts_B[:, None] + torch.arange(length + 1)]
        return Batch.shifted(window_BT.long())
