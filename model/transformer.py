"""The transformer: an encoder, a decoder, or both, over one kind of stack.

B: sequences, T: target positions, S: source positions, D: d_model, V: vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from model.attention import MASK, PATH, SCALE, SIMILARITY
from model.batch import Batch, positions
from model.config import MODEL, Checked, choice, ranged
from model.embedding import Embedding
from model.feedforward import FEEDFORWARD
from model.generate import Decoding
from model.heads import HEAD, Head
from model.init import INIT
from model.mixers import MIXER, Context, Mixer, MixerState
from model.positions import POSITION
from model.residual import NORM, RESIDUAL, Residual, Sublayer

BlockState: TypeAlias = tuple[MixerState, ...]  # one for each mixer of the block


class Block(nn.Module):
    """Mixers, then a feed-forward, each joined to the stream by the residual component."""

    def __init__(
        self,
        mixer: Mixer | None,
        cross: Mixer | None,
        feedforward: nn.Module | None,
        residual: Residual,
    ) -> None:
        super().__init__()
        self.mixer = mixer
        self.cross = cross
        self.feedforward = feedforward
        self.residual = residual

    @property
    def mixers(self) -> list[Mixer]:
        return [mixer for mixer in (self.mixer, self.cross) if mixer is not None]

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> BlockState:
        return tuple(mixer.start(like_BD, capacity, context) for mixer in self.mixers)

    def forward(
        self, x_BTD: Tensor, context: Context, state: BlockState | None = None
    ) -> tuple[Tensor, BlockState | None]:
        mixers = self.mixers
        states: list[MixerState | None] = [None] * len(mixers) if state is None else list(state)

        def mixing(index: int, mixer: Mixer) -> Sublayer:
            def sublayer(x_BTD: Tensor) -> Tensor:
                y_BTD, states[index] = mixer(x_BTD, context, states[index])
                return y_BTD

            return sublayer

        sublayers = [mixing(index, mixer) for index, mixer in enumerate(mixers)]
        if self.feedforward is not None:
            sublayers.append(self.feedforward)
        x_BTD = self.residual(x_BTD, sublayers)
        return x_BTD, None if state is None else tuple(s for s in states if s is not None)


class Stack(nn.Module):
    """Embedding, blocks, and a last norm where there is one."""

    def __init__(self, embedding: Embedding, blocks: Sequence[Block], norm: nn.Module) -> None:
        super().__init__()
        self.embedding = embedding
        self.blocks: Sequence[Block] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm = norm

    @property
    def hides(self) -> bool:
        """Whether in a causal context no token depends on later ones."""
        return all(mixer.hides for block in self.blocks for mixer in block.mixers)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> list[BlockState]:
        return [block.start(like_BD, capacity, context) for block in self.blocks]

    def forward(
        self,
        tokens_BT: Tensor,
        context: Context,
        states: Sequence[BlockState] | None = None,
        segments_BT: Tensor | None = None,
    ) -> tuple[Tensor, list[BlockState] | None]:
        self.embedding.position.check(context.start + len(context.positions))
        x_BTD = self.embedding(tokens_BT, context.positions, segments_BT)
        after: list[BlockState] = []
        for index, block in enumerate(self.blocks):
            if index > 0 and self.embedding.position.every_layer:
                x_BTD = self.embedding.position.embed(x_BTD, context.positions)
            x_BTD, state = block(x_BTD, context, None if states is None else states[index])
            if state is not None:
                after.append(state)
        return self.norm(x_BTD), None if states is None else after


@MODEL.register("transformer")
class Transformer(nn.Module):
    """model(batch) → logits (Vaswani et al. 2017)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        kind: Literal["encoder", "decoder", "encoder_decoder"] = "decoder"
        d_model: int = ranged(64, least=1)
        depth: int = ranged(2, least=1)
        """Blocks in each stack."""
        n_heads: int = ranged(4, least=1)
        d_head: int | None = ranged(None, least=1)
        """Left out: d_model / n_heads."""
        dropout: float = ranged(0.0, least=0, below=1)
        """Dropout of each sublayer's output."""
        embedding_dropout: float | None = ranged(None, least=0, below=1)
        """Left out: the same as dropout."""
        attention_dropout: float = ranged(0.0, least=0, below=1)
        """Dropout of the attention weights."""
        feedforward_dropout: float = ranged(0.0, least=0, below=1)
        """Dropout inside the feed-forward."""
        max_len: int = ranged(512, least=1)
        tied: Literal["free", "output", "all"] = "free"
        """Which embeddings are one: none; the target's and the output's; the source's too."""
        embedding_scale: bool = True
        """Whether token vectors are multiplied by √d_model."""
        embedding_norm: bool = False
        """Whether a norm follows the embedding."""
        segments: int = ranged(0, least=0)
        """Trained vectors for parts of the source, such as BERT's two sentences."""
        final_norm: bool | None = None
        """Whether a stack ends in a norm. Left out: as the residual component has it."""
        causal_encoder: bool = False
        causal_decoder: bool = True
        position: dict[str, Any] = choice(POSITION, "sinusoidal")
        norm: dict[str, Any] = choice(NORM, "layer")
        residual: dict[str, Any] = choice(RESIDUAL, "pre")
        mixer: dict[str, Any] = choice(MIXER, "attention")
        path: dict[str, Any] = choice(PATH, "fused")
        mask: dict[str, Any] = choice(MASK, "infinity")
        similarity: dict[str, Any] = choice(SIMILARITY, "dot")
        scale: dict[str, Any] = choice(SCALE, "sqrt_d_head")
        feedforward: dict[str, Any] = choice(FEEDFORWARD, "relu")
        head: dict[str, Any] = choice(HEAD, "tokens")
        init: dict[str, Any] = choice(INIT, "xavier")

        def __post_init__(self) -> None:
            super().__post_init__()
            residual = RESIDUAL.component(self.residual["name"])
            left_out = {
                "final_norm": residual.ends_in_norm,
                "embedding_dropout": self.dropout,
                "d_head": self.d_model // self.n_heads,
            }
            for name, value in left_out.items():
                if getattr(self, name) is None:
                    object.__setattr__(self, name, value)

        def problems(self) -> list[str]:
            problems = super().problems()
            if self.segments > 0 and "encoder" not in self.kind:
                fix = "only a source has segments; choose kind=encoder or kind=encoder_decoder"
                problems.append(f"segments={self.segments}: {fix}")
            if self.d_head is None and self.n_heads > 0 and self.d_model % self.n_heads:
                why = f"does not divide d_model={self.d_model}; choose a divisor or set d_head"
                problems.append(f"n_heads={self.n_heads}: {why}")
            return problems

    def __init__(
        self,
        encoder: Stack | None,
        decoder: Stack | None,
        head: Head,
        causal_encoder: bool,
        causal_decoder: bool,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.head = head
        self.causal_encoder, self.causal_decoder = causal_encoder, causal_decoder
        # Whether a token's output stays the same when more tokens follow, so that states can be
        # kept. If not, each step reads all tokens again.
        self.goes_on = causal_decoder and decoder is not None and decoder.hides

    def forward(self, batch: Batch) -> Tensor:
        """Logits where the labels are: of the decoder if there is one, else of the encoder."""
        memory_BSD = self.encode(batch.source, batch.source_lengths, batch.segments)
        if self.decoder is None:
            assert memory_BSD is not None
            return self.head(memory_BSD, batch.source_lengths)
        if batch.inputs is None:
            raise ValueError("the batch has no inputs: a decoder needs them")
        self.decoder.embedding.check(batch.inputs, "inputs")
        context = Context(
            positions=positions(batch.inputs.shape[1], batch.inputs),
            causal=self.causal_decoder,
            lengths=batch.lengths,
            memory=memory_BSD,
            memory_lengths=batch.source_lengths,
        )
        x_BTD, _ = self.decoder(batch.inputs, context)
        return self.head(x_BTD, batch.lengths)

    def encode(
        self,
        source_BS: Tensor | None,
        lengths_B: Tensor | None,
        segments_BS: Tensor | None = None,
    ) -> Tensor | None:
        """B S D: the source as the encoder sees it; None where there is no encoder."""
        if self.encoder is None:
            return None
        if source_BS is None:
            raise ValueError("the batch has no source: an encoder needs one")
        self.encoder.embedding.check(source_BS, "source")
        if segments_BS is not None:
            self.encoder.embedding.check_segments(segments_BS)
        at_S = positions(source_BS.shape[1], source_BS)
        context = Context(at_S, causal=self.causal_encoder, lengths=lengths_B)
        memory_BSD, _ = self.encoder(source_BS, context, segments_BT=segments_BS)
        return memory_BSD

    def begin(
        self, sequences: int, capacity: int, source_BS: Tensor | None, lengths_B: Tensor | None
    ) -> Decoding:
        if self.decoder is None:
            raise ValueError("model.kind=encoder writes nothing: choose decoder or encoder_decoder")
        memory = self.encode(source_BS, lengths_B)
        table = self.decoder.embedding.tokens.weight
        if not self.goes_on:
            nothing_B0 = torch.empty(sequences, 0, dtype=torch.long, device=table.device)
            return Decoding(0, (nothing_B0,), memory, lengths_B)
        context = Context(positions(0, table), memory=memory, memory_lengths=lengths_B)
        like_BD = table.new_empty(sequences, table.shape[1] + self.decoder.embedding.position.width)
        states = self.decoder.start(like_BD, capacity, context)
        return Decoding(0, states, memory, lengths_B)

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        assert self.decoder is not None
        start, states, given = decoding.start, decoding.states, tokens_BT.shape[1]
        if not self.goes_on:
            tokens_BT = torch.cat((*states, tokens_BT), dim=1)
            start, states = 0, None
        context = Context(
            positions=positions(tokens_BT.shape[1], tokens_BT, start),
            start=start,
            causal=self.causal_decoder,
            memory=decoding.memory,
            memory_lengths=decoding.memory_lengths,
        )
        x_BTD, after = self.decoder(tokens_BT, context, states)
        end, kept = start + tokens_BT.shape[1], after if self.goes_on else (tokens_BT,)
        return self.head(x_BTD[:, -given:], None), replace(decoding, start=end, states=kept)
