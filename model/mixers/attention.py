"""Multi-head attention, to its own sequence or to a memory.

B: sequences, T: queries, S: keys, D: d_model, H: heads, G: heads of keys and values, K: d_head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.attention import Path, Scale, Shown, Similarity
from model.config import Checked, ConfigError
from model.layers import Joint
from model.mixers import MIXER, Context, Mixer, MixerState
from model.positions import Position


@dataclass(frozen=True)
class Scoring:
    """The parts with which heads score and mix projected queries, keys and values."""

    position: Position
    scale: Scale
    similarity: Similarity
    path: Path
    dropout: float = 0.0  # of the weights


class Heads(Mixer):
    """Multi-head attention in which tokens are their own queries, keys and values."""

    crosses = True

    def __init__(
        self, scoring: Scoring, n_heads: int, n_kv_heads: int, d_head: int, cross: bool
    ) -> None:
        super().__init__()
        self.n_heads, self.n_kv_heads, self.d_head, self.cross = n_heads, n_kv_heads, d_head, cross
        self.group = n_heads // n_kv_heads  # queries' heads to one of keys
        self.position, self.scale = scoring.position, scoring.scale
        self.similarity, self.path = scoring.similarity, scoring.path
        self.weight_dropout = scoring.dropout
        self.shown = Shown()

    @property
    def hides(self) -> bool:
        return self.cross or self.path.hides

    def ask(self, x_BTD: Tensor) -> Tensor:
        """Queries for a memory."""
        return self.heads(x_BTD)

    def offer(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of a memory."""
        x_BHSK = self.heads(memory_BSD)
        return x_BHSK, x_BHSK

    def own(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of one sequence."""
        x_BHTK = self.heads(x_BTD)
        return x_BHTK, x_BHTK, x_BHTK

    def join(self, y_BTD: Tensor) -> Tensor:
        """The output of the concatenated heads."""
        return y_BTD

    def heads(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.view(*x_BTD.shape[:2], -1, self.d_head).transpose(1, 2)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        if self.cross:
            assert context.memory is not None, "cross-attention needs a memory"
            return self.offer(context.memory)
        shape = (like_BD.shape[0], self.n_kv_heads, capacity, self.d_head)
        return like_BD.new_zeros(shape), like_BD.new_zeros(shape)

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        bias_BHTS = None
        if self.cross:
            q_BHTK = self.ask(x_BTD)
            k_BGSK, v_BGSK = state or self.start(x_BTD[:, 0], 0, context)
            q_BHTK, k_BGSK = self.similarity.compared(q_BHTK, k_BGSK)
            q_BHTK, factor = self.scale.scaled(q_BHTK)
            real_BS = context.memory_real
        else:
            q_BHTK, k_BGSK, v_BGSK, factor = self.placed(x_BTD, context)
            if state is not None:
                end = context.start + x_BTD.shape[1]
                for cache, new in zip(state, (k_BGSK, v_BGSK), strict=True):
                    cache[:, :, context.start : end] = new
                k_BGSK, v_BGSK = (cache[:, :, :end] for cache in state)
            bias_BHTS = self.bias(q_BHTK, factor, context.positions, context.seen)
            # Padding is on the right, and queries of a causal model do not look there.
            real_BS = None if context.causal and self.path.hides else context.real
        y_BHTK, weights_BHTS = self.attend(
            q_BHTK,
            k_BGSK,
            v_BGSK,
            factor,
            causal=context.causal and not self.cross,
            keep=None if real_BS is None else real_BS[:, None, None],
            bias=bias_BHTS,
        )
        if weights_BHTS is not None:
            self.shown(weights_BHTS)
        return self.join(y_BHTK.transpose(1, 2).flatten(2)), state

    def placed(self, x_BTD: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor, float]:
        """Queries, keys and values with positions applied, and the factor of the scores."""
        q_BHTK, k_BGTK, v_BGTK = self.own(x_BTD)
        q_BHTK, k_BGTK = self.position.rotate(q_BHTK, k_BGTK, context.positions)
        q_BHTK, k_BGTK = self.similarity.compared(q_BHTK, k_BGTK)
        q_BHTK, factor = self.scale.scaled(q_BHTK)
        return q_BHTK, k_BGTK, v_BGTK, factor

    def bias(
        self, q_BHTK: Tensor, factor: float, queries_T: Tensor, keys_S: Tensor
    ) -> Tensor | None:
        """The position scheme's addition to the scores."""
        fixed_HTS = self.position.bias(queries_T, keys_S)
        by_query_BHTS = self.position.score(q_BHTK, queries_T, keys_S)
        if by_query_BHTS is None:
            return fixed_HTS
        by_query_BHTS = by_query_BHTS * factor
        return by_query_BHTS if fixed_HTS is None else fixed_HTS + by_query_BHTS

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        factor: float,
        causal: bool,
        keep: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attention along the path; sequences and heads are the first two dimensions."""
        if self.group > 1:
            k, v = (each.repeat_interleave(self.group, 1) for each in (k, v))
        dropout = self.weight_dropout if self.training else 0.0
        return self.path(q, k, v, factor, causal, keep, bias, dropout)


@MIXER.register("attention")
class Attention(Heads):
    """Each head weighs values by how well its query fits the keys (Vaswani et al. 2017, 3.2.2)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        bias: bool = True
        n_kv_heads: int | None = None
        """Heads of keys and values, each read by several queries' heads (Ainslie et al. 2023);
        left out: n_heads. One: multi-query attention (Shazeer 2019)."""

    def __init__(
        self, config: Config, scoring: Scoring, d_model: int, n_heads: int, d_head: int, cross: bool
    ) -> None:
        n_kv_heads = n_heads if config.n_kv_heads is None else config.n_kv_heads
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ConfigError([f"n_kv_heads={n_kv_heads}: must divide n_heads={n_heads}"])
        super().__init__(scoring, n_heads, n_kv_heads, d_head, cross)
        query = {"query": n_heads * d_head}
        memory = {"key": n_kv_heads * d_head, "value": n_kv_heads * d_head}
        self.project = Joint(d_model, query if cross else query | memory, config.bias)
        if cross:
            self.project_memory = Joint(d_model, memory, config.bias)
        self.out = nn.Linear(n_heads * d_head, d_model, bias=config.bias)

    def ask(self, x_BTD: Tensor) -> Tensor:
        return self.heads(*self.project(x_BTD))

    def offer(self, memory_BSD: Tensor) -> tuple[Tensor, Tensor]:
        key, value = self.project_memory(memory_BSD)
        return self.heads(key), self.heads(value)

    def own(self, x_BTD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = self.project(x_BTD)
        return self.heads(query), self.heads(key), self.heads(value)

    def join(self, y_BTD: Tensor) -> Tensor:
        return self.out(y_BTD)


@MIXER.register("basic")
class Basic(Heads):
    """Queries, keys and values are the tokens themselves: softmax(x xᵀ · scale) x in each head.

    The basic self-attention of STAT453 and CS224U, which take one head and scale=none.
    """

    def __init__(
        self, scoring: Scoring, d_model: int, n_heads: int, d_head: int, cross: bool
    ) -> None:
        if n_heads * d_head != d_model:
            fill = f"n_heads={n_heads} × d_head must be d_model={d_model}"
            raise ConfigError(
                [f"d_head={d_head}: without projections heads fill the width: {fill}"]
            )
        super().__init__(scoring, n_heads, n_heads, d_head, cross)
