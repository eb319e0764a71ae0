"""Attention to neighbouring tokens, whose cost is linear in the length.

B: sequences, H: heads, G: heads of keys and values, K: d_head, T: queries, S: keys,
N: blocks of queries, C: queries of a block, W: keys that a block's queries can see between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import positions
from model.config import ConfigError, ranged
from model.mixers import MIXER, Context, MixerState
from model.mixers.attention import Attention, Scoring


class Blocks:
    """T queries after `past` older keys, cut into blocks, each with its stretch of the keys."""

    def __init__(self, queries: int, past: int, reach: int, causal: bool) -> None:
        self.queries, self.past = queries, past
        self.size = min(reach, queries)
        self.count = -(-queries // self.size)
        others = (self.count - 1) * self.size  # queries outside of a block
        self.left = min(reach - 1 if causal else reach, past + others)
        self.right = 0 if causal else min(reach, others)
        self.width = self.left + self.size + self.right
        self.spare = self.count * self.size - queries  # empty places in the last block

    def of_queries(self, q_BHTK: Tensor) -> Tensor:
        return F.pad(q_BHTK, (0, 0, 0, self.spare)).unflatten(-2, (self.count, self.size))

    def of_keys(self, k_BGSK: Tensor) -> Tensor:
        """B G N W K: neighbouring blocks share keys."""
        padded = F.pad(k_BGSK, (0, 0, self.left - self.past, self.spare + self.right))
        stretches = padded.unfold(-2, self.width, self.size).transpose(-2, -1)
        # Copied: gradients of an overlapping view are wrong if a compiled graph breaks after it.
        return stretches.contiguous()

    def joined(self, y_BHNCK: Tensor) -> Tensor:
        return y_BHNCK.flatten(-3, -2)[..., : self.queries, :]

    def distances(self, like: Tensor) -> Tensor:
        """C W: how far a key is before a query, the same in every block."""
        return positions(self.size, like, self.left)[:, None] - positions(self.width, like)

    def spread(self, weights_BHNCW: Tensor) -> Tensor:
        """B H T S: the weights of all keys, zero out of reach."""
        rows = [
            F.pad(block, (index * self.size, (self.count - 1 - index) * self.size))
            for index, block in enumerate(weights_BHNCW.unbind(-3))
        ]
        before = self.left - self.past
        end = before + self.past + self.queries
        return torch.cat(rows, dim=-2)[..., : self.queries, before:end]


@MIXER.register("window")
class Window(Attention):
    """Each query sees `reach` neighbours (Vaswani et al. 2017, 4, "restricted"; Child et al. 2019).

    Causal: itself and the reach − 1 tokens before it. Otherwise: itself and reach tokens to each
    side. Blocks of `reach` queries meet their own and the neighbouring keys, so that n tokens cost
    about 2 · reach · n scores (3 where both sides are seen), not n². Weights are named as full
    attention's, and with a reach of the whole length so are the answers. A memory is read by full
    attention, with the same bias and n_kv_heads.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Attention.Config):
        reach: int = ranged(16, least=1)

    crosses = False

    def __init__(
        self,
        config: Config,
        scoring: Scoring,
        mask: nn.Module,
        d_model: int,
        n_heads: int,
        d_head: int,
    ) -> None:
        if not mask.hides:
            raise ConfigError(
                ["mask: a window would show the padding of its blocks; choose mask=infinity"]
            )
        super().__init__(config, scoring, d_model, n_heads, d_head, cross=False)
        self.reach = config.reach

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        """The last reach − 1 keys and values: empty at first."""
        shape = (len(like_BD), self.n_kv_heads, 0, self.d_head)
        return like_BD.new_zeros(shape), like_BD.new_zeros(shape)

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        q_BHTK, k_BGSK, v_BGSK, factor = self.placed(x_BTD, context)
        past = 0
        if state is not None:
            past = state[0].shape[2]
            k_BGSK = torch.cat((state[0], k_BGSK), dim=2)
            v_BGSK = torch.cat((state[1], v_BGSK), dim=2)
            first = max(0, k_BGSK.shape[2] - (self.reach - 1))
            state = (k_BGSK[:, :, first:], v_BGSK[:, :, first:])
        blocks = Blocks(x_BTD.shape[1], past, self.reach, context.causal)
        y_BHNCK, weights_BHNCW = self.attend(
            blocks.of_queries(q_BHTK),
            blocks.of_keys(k_BGSK),
            blocks.of_keys(v_BGSK),
            factor,
            causal=False,
            keep=self.keep(blocks, context),
            bias=self.bias_blocks(blocks, q_BHTK, factor, context),
        )
        if weights_BHNCW is not None and self.shown.is_watched:
            self.shown(F.pad(blocks.spread(weights_BHNCW), (context.start - past, 0)))
        return self.join(blocks.joined(y_BHNCK).transpose(1, 2).flatten(2)), state

    def keep(self, blocks: Blocks, context: Context) -> Tensor:
        """B H N C W (or fewer, to be broadcast): which keys a query sees."""
        distances_CW = blocks.distances(context.positions)
        if context.causal:
            near_CW = (distances_CW >= 0) & (distances_CW < self.reach)
        else:
            near_CW = distances_CW.abs() <= self.reach
        there = torch.ones_like(context.positions, dtype=torch.bool)
        there = F.pad(there, (blocks.past, 0), value=True)
        if context.real is not None and not context.causal:
            there = context.real[:, None]
        there_NW = blocks.of_keys(there[..., None])[..., 0]
        # Padding sees itself at least: a softmax over nothing is NaN.
        return near_CW & there_NW[..., None, :] | (distances_CW == 0)

    def bias_blocks(
        self, blocks: Blocks, q_BHTK: Tensor, factor: float, context: Context
    ) -> Tensor | None:
        """H N C W or B H N C W: the position scheme's bias, computed for real positions only."""
        biases = []
        for index in range(blocks.count):
            first = index * blocks.size
            queries_C = context.positions[first : first + blocks.size]
            low = context.start + first - blocks.left
            keys_W = context.seen[max(low, 0) : low + blocks.width]
            q_BHCK = q_BHTK[:, :, first : first + blocks.size]
            bias = self.bias(q_BHCK, factor, queries_C, keys_W)
            if bias is None:
                return None
            right = blocks.width - max(-low, 0) - len(keys_W)
            below = blocks.size - len(queries_C)
            biases.append(F.pad(bias, (max(-low, 0), right, 0, below)))
        return torch.stack(biases, dim=-3)
