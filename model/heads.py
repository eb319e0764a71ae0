"""Heads: from the vectors of a stack to logits.

B: sequences, T: positions, D: d_model, V: vocabulary or classes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import positions
from model.config import Registry

HEAD = Registry("head")


@HEAD.register("bare")
class Head(nn.Module):
    """Returns the vectors; subclasses compute logits."""

    per: ClassVar[str | None] = None
    """Whether each token or the whole sequence has logits; None if there are none."""

    def forward(self, x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
        return x_BTD


@HEAD.register("tokens")
class EachToken(Head):
    """Logits over the vocabulary at every position: language models and masked tokens."""

    per = "token"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        bias: bool = True
        transform: bool = False
        """Whether a dense layer, GELU and a norm come first (BERT)."""
        scale: float = 1.0
        """Factor of the vectors; T5 divides by √d_model when tied."""

    def __init__(self, config: Config, d_model: int, target_size: int, norm: nn.Module) -> None:
        super().__init__()
        self.scale = config.scale
        self.dense = nn.Linear(d_model, d_model) if config.transform else None
        self.norm = norm if config.transform else None
        self.project = nn.Linear(d_model, target_size, bias=config.bias)

    def forward(self, x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
        if self.dense is not None and self.norm is not None:
            x_BTD = self.norm(F.gelu(self.dense(x_BTD)))
        if self.scale != 1.0:
            x_BTD = x_BTD * self.scale
        return self.project(x_BTD)


@HEAD.register("classes")
class Classes(Head):
    """One set of logits for the whole sequence, read off one token or the mean of all."""

    per = "sequence"

    @dataclass(frozen=True, kw_only=True)
    class Config:
        pool: Literal["first", "last", "mean"] = "first"
        transform: bool = False
        """Whether a dense layer and tanh come first (BERT)."""

    def __init__(self, config: Config, d_model: int, target_size: int) -> None:
        super().__init__()
        self.pool = {"first": _first, "last": last, "mean": _mean}[config.pool]
        self.dense = nn.Linear(d_model, d_model) if config.transform else None
        self.classify = nn.Linear(d_model, target_size)

    def forward(self, x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
        pooled_BD = self.pool(x_BTD, lengths_B)
        if self.dense is not None:
            pooled_BD = torch.tanh(self.dense(pooled_BD))
        return self.classify(pooled_BD)


def _first(x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
    return x_BTD[:, 0]


def last(x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
    """The vector of each sequence's last real token."""
    if lengths_B is None:
        return x_BTD[:, -1]
    return x_BTD[torch.arange(len(x_BTD), device=x_BTD.device), lengths_B - 1]


def _mean(x_BTD: Tensor, lengths_B: Tensor | None) -> Tensor:
    if lengths_B is None:
        return x_BTD.mean(dim=1)
    real_BT1 = (positions(x_BTD.shape[1], x_BTD) < lengths_B[:, None])[..., None]
    return (x_BTD * real_BT1).sum(dim=1) / lengths_B[:, None]
