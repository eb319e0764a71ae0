"""A part that is registered from outside is held to the same contracts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from contract_checks import OF_DECODERS, checks
from contract_subjects import RECIPES, Recipe, temporary
from task_subjects import failures
from torch import Tensor, nn

from model.batch import Batch, positions
from model.family import MODEL, choice
from model.initialise import INITIAL
from model.positions import POSITION, Position


class BagOfWords(nn.Module):
    """One class for each sequence, from the sum of its words."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        d_model: int = 8
        dropout: float = 0.0
        initial: dict[str, Any] = choice(INITIAL, "normal")

    def __init__(self, words: nn.Embedding, dropout: float, head: nn.Linear) -> None:
        super().__init__()
        self.words = words
        self.dropout = nn.Dropout(dropout)
        self.head = head

    @classmethod
    def assemble(cls, config: Config, source_size: int, target_size: int) -> BagOfWords:
        words = nn.Embedding(source_size, config.d_model)
        return cls(words, config.dropout, nn.Linear(config.d_model, target_size))

    def forward(self, batch: Batch) -> Tensor:
        x_BSD = self.dropout(self.words(batch.source))
        if batch.source_lengths is not None:
            real_BS = positions(x_BSD.shape[1], x_BSD) < batch.source_lengths[:, None]
            x_BSD = x_BSD * real_BS[..., None]
        return self.head(x_BSD.sum(dim=1))


class UsesEverySite(Position):
    """Turns queries and keys, leans on distance, and lets queries weigh places."""

    def __init__(self, n_heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.linspace(-1, 1, n_heads))

    def rotate(self, q_BHTK: Tensor, k_BHTK: Tensor, positions_T: Tensor) -> tuple[Tensor, Tensor]:
        turn_T1 = (positions_T.to(q_BHTK.dtype) * 0.3).cos()[:, None]
        return q_BHTK * turn_T1, k_BHTK * turn_T1

    def bias(self, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        return self.slopes[:, None, None] * (queries_T[:, None] - keys_S).abs()

    def score(self, q_BHTK: Tensor, queries_T: Tensor, keys_S: Tensor) -> Tensor:
        return q_BHTK.sum(-1, keepdim=True) * (keys_S.to(q_BHTK.dtype) * 0.7).sin()


def test_a_sound_position_keeps_every_contract() -> None:
    with temporary(POSITION, UsesEverySite) as subject:
        assert not failures(checks(subject), subject)


def test_a_sound_classifier_keeps_every_contract_but_those_of_decoders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(RECIPES, ("model", "BagOfWords"), Recipe(kind="encoder", answers="classes"))
    with temporary(MODEL, BagOfWords) as subject:
        assert not set(checks(subject)) & set(OF_DECODERS)
        assert not failures(checks(subject), subject)
