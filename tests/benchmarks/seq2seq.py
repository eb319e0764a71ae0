"""Letters to phones with torch's own nn.Transformer, as its documentation would have it trained.

B: words, S: letters, T: phones, D: width, V: vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.tasks.batching import Padded
from ablations.train.optimiser import OPTIMISER
from ablations.train.settings import TrainConfig
from model.batch import IGNORE, PAD, Batch


class TorchSeq2Seq(nn.Module):
    """Pre-norm, sinusoidal positions, scaled embeddings; every mask that padding asks for."""

    def __init__(self, config: dict[str, Any], source_size: int, target_size: int) -> None:
        super().__init__()
        width, depth = config["d_model"], config["depth"]
        self.letters = nn.Embedding(source_size, width)
        self.phones = nn.Embedding(target_size, width)
        self.stack = nn.Transformer(
            width, config["n_heads"], depth, depth, 4 * width, config["dropout"],
            batch_first=True, norm_first=True,
        )  # fmt: skip
        for module in self.stack.modules():  # dropped where ours drops, and nowhere else
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = config["attention_dropout"]
            elif isinstance(module, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
                module.dropout.p = config["feedforward_dropout"]
        self.head = nn.Linear(width, target_size)
        self.dropout = nn.Dropout(config["embedding_dropout"])
        places_L1 = torch.arange(config["max_len"])[:, None]
        angles_LH = places_L1 * torch.exp(torch.arange(0, width, 2) * (-math.log(1e4) / width))
        waves_LD = torch.stack((angles_LH.sin(), angles_LH.cos()), dim=-1).flatten(1)
        self.register_buffer("waves_LD", waves_LD, persistent=False)
        masked = nn.Transformer.generate_square_subsequent_mask(config["max_len"]).isinf()
        self.register_buffer("future_LL", masked, persistent=False)

    def embed(self, table: nn.Embedding, tokens_BL: Tensor) -> Tensor:
        waves_LD = self.get_buffer("waves_LD")[: tokens_BL.shape[1]]
        return self.dropout(table(tokens_BL) * math.sqrt(table.embedding_dim) + waves_LD)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.source is not None
        assert batch.inputs is not None
        length = batch.inputs.shape[1]
        absent_BS, absent_BT = batch.source == PAD, batch.inputs == PAD
        y_BTD = self.stack(
            self.embed(self.letters, batch.source),
            self.embed(self.phones, batch.inputs),
            tgt_mask=self.get_buffer("future_LL")[:length, :length],
            src_key_padding_mask=absent_BS,
            tgt_key_padding_mask=absent_BT,
            memory_key_padding_mask=absent_BS,
            tgt_is_causal=True,
        )
        return self.head(y_BTD)


def shuffled(pairs: Padded, words: int) -> Iterator[Batch]:
    """Batches of so many words, whatever their lengths."""
    generator = torch.Generator().manual_seed(0)
    while True:
        for rows_B in torch.randperm(len(pairs), generator=generator).split(words):
            if len(rows_B) == words:
                yield pairs.batch(rows_B)


class BareLoop:
    """A training as a script would write it, on batches that are ready-made."""

    def __init__(self, model: nn.Module, config: TrainConfig) -> None:
        self.model, self.config = model.train(), config
        self.optimiser = OPTIMISER.build(config.optimiser, parameters=model.parameters())

    def step(self, parts: tuple[Batch, ...], labels: int) -> None:
        self.optimiser.zero_grad()
        for batch in parts:
            logits_BTV = self.model(batch)
            loss = F.cross_entropy(
                logits_BTV.flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORE,
                reduction="sum", label_smoothing=self.config.smoothing,
            )  # fmt: skip
            (loss / labels).backward()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
        self.optimiser.step()
