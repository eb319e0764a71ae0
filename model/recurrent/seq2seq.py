"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Luong et al. 2015).

B: sequences, T: target positions, S: source positions, H: hidden width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from model.batch import Batch, positions
from model.family import ConfigError, choice
from model.generate import Decoding
from model.initialise import INITIAL
from model.kind import MODEL
from model.recurrent import CELL, SCORE
from model.recurrent.cell import LSTM
from model.recurrent.score import Dot


def reverse(x_BT: Tensor, lengths_B: Tensor | None) -> Tensor:
    """Each sequence backwards, its padding left where it is."""
    if lengths_B is None:
        return x_BT.flip(1)
    at_T = positions(x_BT.shape[1], x_BT)
    from_BT = torch.where(at_T < lengths_B[:, None], lengths_B[:, None] - 1 - at_T, at_T)
    index = from_BT.reshape(from_BT.shape + (1,) * (x_BT.dim() - 2)).expand_as(x_BT)
    return x_BT.gather(1, index)


class BidirectionalEncoder(nn.Module):
    """Layers that read the source both ways, half the width each.

    Backwards means reversed within the real length, so that padding is never read first; the
    library's packed sequences do the same at a multiple of the time on a CPU.
    """

    def __init__(
        self, embedding: nn.Module, layers: Sequence[tuple[LSTM, LSTM]], dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.forwards: Sequence[LSTM] = nn.ModuleList(a for a, _ in layers)  # type: ignore[assignment]
        self.backwards: Sequence[LSTM] = nn.ModuleList(b for _, b in layers)  # type: ignore[assignment]
        self.dropout = nn.Dropout(dropout)

    def forward(self, source_BS: Tensor, lengths_B: Tensor | None) -> Tensor:
        x_BSH = self.dropout(self.embedding(source_BS))
        for ahead, back in zip(self.forwards, self.backwards, strict=True):
            zero = ahead.start(x_BSH.new_empty(len(x_BSH), ahead.hidden_size))
            y_ahead, _ = ahead.run(x_BSH, zero)
            y_back, _ = back.run(reverse(x_BSH, lengths_B), zero)
            x_BSH = self.dropout(torch.cat((y_ahead, reverse(y_back, lengths_B)), dim=-1))
        return x_BSH


@MODEL.register("recurrent")
class Recurrent(nn.Module):
    """A bidirectional encoder, a decoder that attends to it, and the same model(batch) → logits."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        d_model: int = 64
        """Width of embeddings and of hidden states."""
        depth: int = 1
        """Layers of the encoder and of the decoder."""
        dropout: float = 0.0
        cell: dict[str, Any] = choice(CELL, "lstm")
        score: dict[str, Any] = choice(SCORE, "dot")
        initial: dict[str, Any] = choice(INITIAL, "xavier")

        def __post_init__(self) -> None:
            problems = []
            if self.d_model < 2 or self.d_model % 2:
                problems.append(f"d_model={self.d_model}: must be even, half for each direction")
            if self.depth < 1:
                problems.append(f"depth={self.depth}: must be at least 1")
            if not 0 <= self.dropout < 1:
                problems.append(f"dropout={self.dropout}: must be from 0 to below 1")
            if problems:
                raise ConfigError(problems)

    def __init__(
        self,
        encoder: BidirectionalEncoder,
        embedding: nn.Embedding,
        layers: Sequence[LSTM],
        score: Dot,
        combine: nn.Linear,
        head: nn.Linear,
        dropout: float,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.embedding = embedding
        self.layers: Sequence[LSTM] = nn.ModuleList(layers)  # type: ignore[assignment]
        self.score = score
        self.combine = combine
        self.head = head
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        decoding = self.begin(len(batch.inputs), 0, batch.source, batch.source_lengths)
        return self.step(batch.inputs, decoding)[0]

    def begin(
        self,
        sequences: int,
        capacity: int,
        source_BS: Tensor | None,
        source_lengths_B: Tensor | None,
    ) -> Decoding:
        """The decoder starts from zeros: all that it knows of the source comes by attention."""
        assert source_BS is not None, "an encoder-decoder needs a source"
        memory_BSH = self.encoder(source_BS, source_lengths_B)
        states = [layer.start(memory_BSH[:, 0]) for layer in self.layers]
        return Decoding(0, states, memory_BSH, source_lengths_B)

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        x_BTH = self.dropout(self.embedding(tokens_BT))
        states = []
        for layer, state in zip(self.layers, decoding.states, strict=True):
            x_BTH, after = layer.run(x_BTH, state)
            x_BTH = self.dropout(x_BTH)
            states.append(after)
        assert decoding.memory is not None
        read_BTH = self.attend(x_BTH, decoding.memory, decoding.memory_lengths)
        joined_BTH = torch.tanh(self.combine(torch.cat((x_BTH, read_BTH), dim=-1)))
        logits_BTV = self.head(self.dropout(joined_BTH))
        return logits_BTV, replace(
            decoding, start=decoding.start + tokens_BT.shape[1], states=states
        )

    def attend(self, h_BTH: Tensor, memory_BSH: Tensor, lengths_B: Tensor | None) -> Tensor:
        """What the decoder reads of the memory at each of its positions."""
        scores_BTS = self.score(h_BTH, memory_BSH)
        if lengths_B is not None:
            padded_BS = positions(memory_BSH.shape[1], memory_BSH) >= lengths_B[:, None]
            scores_BTS = scores_BTS.masked_fill(padded_BS[:, None], float("-inf"))
        return scores_BTS.softmax(dim=-1) @ memory_BSH
