"""Recurrent models: a language model, and an encoder-decoder that may read its source.

B: sequences, T: positions, H: hidden width, V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from model.attention import Shown
from model.batch import Batch, positions
from model.cells import CELL, CellState, RecurrentLayer, both_ways
from model.config import MODEL, Checked, Registry, choice, ranged
from model.embedding import Embedding
from model.generate import Decoding
from model.heads import Head, last
from model.init import INIT
from model.layers import Dropout, Joint

SCORE = Registry("score")


class Layers(nn.Module):
    """Embedding and recurrent layers; dropout on the way up, never through time (Zaremba 2014)."""

    def __init__(
        self, embedding: Embedding, cells: Sequence[RecurrentLayer], dropout: float
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.cells: Sequence[RecurrentLayer] = nn.ModuleList(cells)  # type: ignore[arg-type,assignment]
        self.dropout = Dropout(dropout)

    def start(self, sequences: int) -> list[CellState]:
        """Each layer's state before the first token of text that nothing precedes."""
        table = self.embedding.tokens.weight
        return [cell.start(table.new_empty(sequences, 0)) for cell in self.cells]

    def forward(
        self, tokens_BT: Tensor, states: Sequence[CellState]
    ) -> tuple[Tensor, list[CellState]]:
        """The top layer's hidden vectors, and each layer's state after the last token."""
        x_BTH = self.embedding(tokens_BT, positions(tokens_BT.shape[1], tokens_BT))
        after = []
        for cell, state in zip(self.cells, states, strict=True):
            x_BTH, state = cell.run(x_BTH, state)
            x_BTH = self.dropout(x_BTH)
            after.append(state)
        return x_BTH, after


@MODEL.register("recurrent")
class Recurrent(nn.Module):
    """model(batch) → logits, one position after the other (Mikolov et al. 2010).

    This is kind=decoder; the encoder-decoder builds on it.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        kind: Literal["decoder", "encoder_decoder"] = "encoder_decoder"
        """A language model, or a bidirectional encoder and a decoder that starts from its end."""
        d_model: int = ranged(64, least=1)
        """Width of embeddings and of hidden states."""
        depth: int = ranged(1, least=1)
        """Layers of the encoder and of the decoder."""
        dropout: float = ranged(0.0, least=0, below=1)
        """Dropout of embeddings and of each layer's output."""
        tied: bool = False
        """Whether one table serves the target's embedding and the output."""
        cell: dict[str, Any] = choice(CELL, "lstm")
        score: dict[str, Any] = choice(SCORE, "dot")
        """How the decoder of an encoder_decoder reads the source."""
        init: dict[str, Any] = choice(INIT, "xavier")

        def problems(self) -> list[str]:
            if self.kind == "decoder" or self.d_model % 2 == 0:
                return super().problems()
            odd = f"d_model={self.d_model}: must be even, half for each direction"
            return [*super().problems(), odd]

    def __init__(self, decoder: Layers, head: Head) -> None:
        super().__init__()
        self.decoder = decoder
        self.head = head

    def forward(self, batch: Batch) -> Tensor:
        if batch.inputs is None:
            raise ValueError("the batch has no inputs: a decoder needs them")
        self.decoder.embedding.check(batch.inputs, "inputs")
        decoding = self.begin(len(batch.inputs), 0, batch.source, batch.source_lengths)
        return self.step(batch.inputs, decoding)[0]

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor | None, lengths_B: Tensor | None
    ) -> Decoding:
        return Decoding(0, self.decoder.start(sequences))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        x_BTH, states = self.decoder(tokens_BT, decoding.states)
        after = replace(decoding, start=decoding.start + tokens_BT.shape[1], states=states)
        return self.head(x_BTH, None), after


class MemoryScore(nn.Module):
    """Scores, B T S, in two steps: what needs the source alone is done once for each source."""

    reads = True  # whether the decoder reads the source at all

    def keys(self, memory_BSH: Tensor) -> Tensor:
        """The positions as they are scored."""
        return memory_BSH


@SCORE.register("none")
class NoReading(MemoryScore):
    """The decoder reads one vector a layer of the source (Sutskever et al., Cho et al. 2014)."""

    reads = False


@SCORE.register("dot")
class Dot(MemoryScore):
    """hᵀ m (Luong et al. 2015)."""

    def forward(self, h_BTH: Tensor, keys_BSH: Tensor) -> Tensor:
        return h_BTH @ keys_BSH.transpose(1, 2)


@SCORE.register("bilinear")
class Bilinear(Dot):
    """hᵀ W m (Luong et al. 2015, "general")."""

    def __init__(self, d_hidden: int) -> None:
        super().__init__()
        self.project = nn.Linear(d_hidden, d_hidden, bias=False)

    def keys(self, memory_BSH: Tensor) -> Tensor:
        return self.project(memory_BSH)


@SCORE.register("mlp")
class MLP(MemoryScore):
    """vᵀ tanh(W h + U m) (Bahdanau et al. 2015)."""

    def __init__(self, d_hidden: int) -> None:
        super().__init__()
        self.state = nn.Linear(d_hidden, d_hidden, bias=False)
        self.memory = nn.Linear(d_hidden, d_hidden, bias=False)
        self.weigh = nn.Linear(d_hidden, 1, bias=False)

    def keys(self, memory_BSH: Tensor) -> Tensor:
        return self.memory(memory_BSH)

    def forward(self, h_BTH: Tensor, keys_BSH: Tensor) -> Tensor:
        met_BTSH = torch.tanh(self.state(h_BTH)[:, :, None] + keys_BSH[:, None])
        return self.weigh(met_BTSH)[..., 0]


class BidirectionalEncoder(nn.Module):
    """Layers that read the source both ways, half the width each (Schuster & Paliwal 1997)."""

    def __init__(
        self,
        embedding: Embedding,
        layers: Sequence[tuple[RecurrentLayer, RecurrentLayer]],
        dropout: float,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        ahead, back = zip(*layers, strict=True)
        self.forwards: Sequence[RecurrentLayer] = nn.ModuleList(ahead)  # type: ignore[assignment]
        self.backwards: Sequence[RecurrentLayer] = nn.ModuleList(back)  # type: ignore[assignment]
        self.dropout = Dropout(dropout)

    def forward(self, source_BS: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """B S H: each position in its context; and of each layer B H, where both ways end."""
        x_BSH = self.embedding(source_BS, positions(source_BS.shape[1], source_BS))
        ends = []
        for ahead, back in zip(self.forwards, self.backwards, strict=True):
            ahead_BSH, back_BSH = both_ways(ahead, back, x_BSH, lengths_B)
            ends.append(torch.cat((last(ahead_BSH, lengths_B), back_BSH[:, 0]), dim=-1))
            x_BSH = self.dropout(torch.cat((ahead_BSH, back_BSH), dim=-1))
        return x_BSH, ends


class Seq2Seq(Recurrent):
    """A bidirectional encoder, and a language model that starts where it ended and may look back.

    Each state of decoder layer l (hidden; with an LSTM, cell too) starts as tanh(W e + b), where
    e = [→h; ←h] are the last hidden vectors of encoder layer l, forwards at the sequence's real
    end and backwards at its first token (Cho et al. 2014, Bahdanau et al. 2015). An LSTM's cells
    are not handed on: under padding the library's fast kernel does not give them.

    Above its top layer the decoder reads r = Σ softmax(score(h, m)) m over the memory, and answers
    from tanh(W [h; r] + b) (Luong et al. 2015). Reading comes after the recurrence, also for
    Bahdanau's score, so that all positions are computed at once. Without reading it answers from
    tanh(W h + b): nothing else changes, so scores differ in their attention alone.
    """

    def __init__(
        self,
        encoder: BidirectionalEncoder,
        bridges: Sequence[Joint],
        decoder: Layers,
        score: MemoryScore,
        combine: nn.Linear,
        head: Head,
        dropout: float,
    ) -> None:
        super().__init__(decoder, head)
        self.shown = Shown()
        self.encoder = encoder
        self.bridges = nn.ModuleList(bridges)
        self.score = score
        self.combine = combine
        self.dropout = Dropout(dropout)

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor | None, lengths_B: Tensor | None
    ) -> Decoding:
        if source_BS is None:
            raise ValueError("the batch has no source: an encoder needs one")
        self.encoder.embedding.check(source_BS, "source")
        memory_BSH, ends = self.encoder(source_BS, lengths_B)
        layers = [
            tuple(torch.tanh(state_BH) for state_BH in bridge(end_BH))
            for bridge, end_BH in zip(self.bridges, ends, strict=True)
        ]
        states = (layers, self.score.keys(memory_BSH))
        return Decoding(0, states, memory_BSH, lengths_B)

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        layers, keys_BSH = decoding.states
        x_BTH, layers = self.decoder(tokens_BT, layers)
        if self.score.reads:
            assert decoding.memory is not None
            read_BTH = self.read(x_BTH, keys_BSH, decoding.memory, decoding.memory_lengths)
            x_BTH = torch.cat((x_BTH, read_BTH), dim=-1)
        answer_BTH = self.dropout(torch.tanh(self.combine(x_BTH)))
        start, states = decoding.start + tokens_BT.shape[1], (layers, keys_BSH)
        return self.head(answer_BTH, None), replace(decoding, start=start, states=states)

    def read(
        self, h_BTH: Tensor, keys_BSH: Tensor, memory_BSH: Tensor, lengths_B: Tensor | None
    ) -> Tensor:
        """The memory, weighted by the scores of each position of the decoder."""
        scores_BTS = self.score(h_BTH, keys_BSH)
        if lengths_B is not None:
            padded_BS = positions(memory_BSH.shape[1], memory_BSH) >= lengths_B[:, None]
            scores_BTS = scores_BTS.masked_fill(padded_BS[:, None], float("-inf"))
        weights_BTS = scores_BTS.softmax(dim=-1)
        self.shown(weights_BTS[:, None])
        return weights_BTS @ memory_BSH
