"""The transformer: an encoder, a decoder, or both, over one kind of stack.

B: sequences, T: target positions, S: source positions, D: d_model, V: vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor, nn

from model.attention import PATH
from model.batch import Batch, positions
from model.block import Stack
from model.family import ConfigError, choice
from model.feedforward import FEEDFORWARD
from model.generate import Decoding
from model.initialise import INITIAL
from model.kind import MODEL
from model.mixer import MIXER, Context
from model.norm import NORM
from model.position import POSITION
from model.residual import RESIDUAL
from model.scale import SCALE


@MODEL.register("transformer")
class Transformer(nn.Module):
    """model(batch) → logits (Vaswani et al. 2017)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        kind: Literal["encoder_decoder", "decoder"] = "decoder"
        d_model: int = 64
        depth: int = 2
        """Blocks in each stack."""
        n_heads: int = 4
        d_head: int | None = None
        """Left out: d_model / n_heads."""
        dropout: float = 0.0
        """Of embeddings and of what each sublayer adds."""
        max_len: int = 512
        tied: bool = False
        """Whether the output projection is the target embedding."""
        embedding_scale: bool = True
        """Whether token vectors are multiplied by √d_model."""
        position: dict[str, Any] = choice(POSITION, "sinusoidal")
        norm: dict[str, Any] = choice(NORM, "layer")
        residual: dict[str, Any] = choice(RESIDUAL, "pre")
        mixer: dict[str, Any] = choice(MIXER, "attention")
        path: dict[str, Any] = choice(PATH, "fused")
        scale: dict[str, Any] = choice(SCALE, "sqrt_d_head")
        feedforward: dict[str, Any] = choice(FEEDFORWARD, "relu")
        initial: dict[str, Any] = choice(INITIAL, "xavier")

        def __post_init__(self) -> None:
            problems = [
                f"{name}={getattr(self, name)}: must be at least 1"
                for name in ("d_model", "depth", "n_heads", "max_len")
                if getattr(self, name) < 1
            ]
            if not 0 <= self.dropout < 1:
                problems.append(f"dropout={self.dropout}: must be from 0 to below 1")
            if self.d_head is None and self.n_heads > 0:
                if self.d_model % self.n_heads:
                    problems.append(
                        f"n_heads={self.n_heads}: does not divide d_model={self.d_model}; "
                        "choose a divisor or set d_head"
                    )
                object.__setattr__(self, "d_head", self.d_model // self.n_heads)
            elif self.d_head is not None and self.d_head < 1:
                problems.append(f"d_head={self.d_head}: must be at least 1")
            if problems:
                raise ConfigError(problems)

    def __init__(self, encoder: Stack | None, decoder: Stack, head: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        memory = self.encode(batch.source, batch.source_lengths)
        context = Context(
            positions=positions(batch.inputs.shape[1], batch.inputs),
            causal=True,
            lengths=batch.lengths,
            memory=memory,
            memory_lengths=batch.source_lengths,
        )
        x_BTD, _ = self.decoder(batch.inputs, context)
        return self.head(x_BTD)

    def encode(self, source_BS: Tensor | None, lengths_B: Tensor | None) -> Tensor | None:
        """B S D: what the decoder reads of the source."""
        if self.encoder is None:
            return None
        assert source_BS is not None, "an encoder-decoder needs a source"
        context = Context(positions(source_BS.shape[1], source_BS), lengths=lengths_B)
        memory_BSD, _ = self.encoder(source_BS, context)
        return memory_BSD

    def begin(
        self,
        sequences: int,
        capacity: int,
        source_BS: Tensor | None,
        source_lengths_B: Tensor | None,
    ) -> Decoding:
        memory = self.encode(source_BS, source_lengths_B)
        table = self.decoder.embedding.tokens.weight
        context = Context(positions(0, table), memory=memory, memory_lengths=source_lengths_B)
        like_BD = table.new_empty(sequences, table.shape[1])
        states = self.decoder.start(like_BD, capacity, context)
        return Decoding(0, states, memory, source_lengths_B)

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        context = Context(
            positions=positions(tokens_BT.shape[1], tokens_BT, decoding.start),
            start=decoding.start,
            causal=True,
            memory=decoding.memory,
            memory_lengths=decoding.memory_lengths,
        )
        x_BTD, states = self.decoder(tokens_BT, context, decoding.states)
        after = replace(decoding, start=decoding.start + tokens_BT.shape[1], states=states)
        return self.head(x_BTD), after
