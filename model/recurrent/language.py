"""The recurrent language model: a stack of layers that reads on and says what comes next.

B: sequences, T: positions, H: hidden width, V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from model.batch import Batch, positions
from model.config import ConfigError, too_small
from model.embedding import Embedding
from model.family import MODEL, choice
from model.generate import Decoding
from model.head import Head
from model.initialise import INITIAL
from model.layers import Dropout
from model.recurrent import CELL, SCORE, CellState, RecurrentLayer


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
        return [cell.start(table.new_empty(sequences, cell.hidden_size)) for cell in self.cells]

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
    class Config:
        kind: Literal["decoder", "encoder_decoder"] = "encoder_decoder"
        """A language model, or a bidirectional encoder and a decoder that starts from its end."""
        d_model: int = 64
        """Width of embeddings and of hidden states."""
        depth: int = 1
        """Layers of the encoder and of the decoder."""
        dropout: float = 0.0
        """Of embeddings and of what a layer hands upwards."""
        tied: bool = False
        """Whether one table serves the target's embedding and the output."""
        cell: dict[str, Any] = choice(CELL, "lstm")
        score: dict[str, Any] = choice(SCORE, "dot")
        """How the decoder of an encoder_decoder reads the source."""
        initial: dict[str, Any] = choice(INITIAL, "xavier")

        def __post_init__(self) -> None:
            problems = too_small(self, d_model=1, depth=1)
            if self.kind == "encoder_decoder" and self.d_model % 2:
                problems.append(f"d_model={self.d_model}: must be even, half for each direction")
            if not 0 <= self.dropout < 1:
                problems.append(f"dropout={self.dropout}: must be from 0 to below 1")
            if problems:
                raise ConfigError(problems)

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
        self,
        sequences: int,
        capacity: int,
        source_BS: Tensor | None,
        source_lengths_B: Tensor | None,
    ) -> Decoding:
        return Decoding(0, self.decoder.start(sequences))

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        x_BTH, states = self.decoder(tokens_BT, decoding.states)
        after = replace(decoding, start=decoding.start + tokens_BT.shape[1], states=states)
        return self.head(x_BTH, None), after
