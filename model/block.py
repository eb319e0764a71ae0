"""One layer of a stack, and the stack.

B: sequences, T: positions, D: d_model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from torch import Tensor, nn

from model.embedding import Embedding
from model.mixer import Context, Mixer, MixerState
from model.residual import Residual, Sublayer

BlockState: TypeAlias = tuple[MixerState, ...]  # one for each mixer of the block


class Block(nn.Module):
    """Mixers, then a feed-forward, each joined to the stream by the residual part."""

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
        """Whether in a causal context no token learns of a later one."""
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
