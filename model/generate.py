"""Answers, one token at a time.

B: sequences, T: positions given now, S: source positions, V: vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from model.batch import BOS, EOS, Batch


@dataclass(frozen=True)
class Decoding:
    """Where a generation stands: what the model keeps of the tokens so far."""

    start: int  # tokens so far
    states: Any  # nested tuples and lists of tensors, sequences first
    memory: Tensor | None = None  # B S D
    memory_lengths: Tensor | None = None  # B

    def select(self, rows_B: Tensor) -> Decoding:
        """The same with other sequences: some dropped, some doubled."""
        return replace(
            self,
            states=_select(self.states, rows_B),
            memory=_select(self.memory, rows_B),
            memory_lengths=_select(self.memory_lengths, rows_B),
        )


def _select(tree: Any, rows_B: Tensor) -> Any:
    if tree is None:
        return None
    if isinstance(tree, Tensor):
        return tree.index_select(0, rows_B)
    return type(tree)(_select(branch, rows_B) for branch in tree)


class Generator(Protocol):
    """What a model offers so that it can be asked for an answer."""

    def begin(
        self,
        sequences: int,
        capacity: int,
        source_BS: Tensor | None,
        source_lengths_B: Tensor | None,
    ) -> Decoding: ...

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]: ...


@torch.inference_mode()
def greedy(
    model: Generator, source_BS: Tensor, source_lengths_B: Tensor | None, max_new: int
) -> list[list[int]]:
    """The likeliest next token, again and again, until each sequence has ended.

    The answers carry neither BOS nor EOS. Dropout is off meanwhile.
    """
    assert isinstance(model, torch.nn.Module)
    was_training = model.training
    model.eval()
    try:
        Batch(labels=source_BS, source=source_BS, source_lengths=source_lengths_B)  # do they fit?
        sequences = source_BS.shape[0]
        decoding = model.begin(sequences, max_new, source_BS, source_lengths_B)
        tokens_B1 = source_BS.new_full((sequences, 1), BOS)
        rows_B = torch.arange(sequences, device=source_BS.device)  # sequences still open
        answers: list[list[int]] = [[] for _ in range(sequences)]
        for _ in range(max_new):
            logits_B1V, decoding = model.step(tokens_B1, decoding)
            tokens_B1 = logits_B1V[:, -1].argmax(dim=-1, keepdim=True)
            is_open_B = tokens_B1[:, 0] != EOS
            for row, token, is_open in zip(
                rows_B.tolist(), tokens_B1[:, 0].tolist(), is_open_B.tolist(), strict=True
            ):
                if is_open:
                    answers[row].append(token)
            if not is_open_B.all():
                kept = is_open_B.nonzero()[:, 0]
                if len(kept) == 0:
                    break
                rows_B, tokens_B1, decoding = rows_B[kept], tokens_B1[kept], decoding.select(kept)
    finally:
        model.train(was_training)
    return answers
