"""Multi-head attention, to its own sequence or to a memory.

B: sequences, T: queries, S: keys, D: d_model, H: heads, G: heads of keys and values, K: d_head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.attention import Path
from model.family import ConfigError
from model.linear import Joint
from model.mixer import MIXER, Context, Mixer, State
from model.position import Position
from model.scale import Scale


@MIXER.register("attention")
class Attention(Mixer):
    """Each head weighs values by how well its query fits the keys (Vaswani et al. 2017, 3.2.2)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        bias: bool = True
        n_kv_heads: int | None = None
        """Heads of keys and values, each read by several queries' heads (Ainslie et al. 2023);
        left out: n_heads. One: multi-query attention (Shazeer 2019)."""

    crosses = True

    def __init__(
        self,
        config: Config,
        d_model: int,
        n_heads: int,
        d_head: int,
        position: Position,
        scale: Scale,
        similarity: nn.Module,
        path: Path,
        attention_dropout: float,
        cross: bool,
    ) -> None:
        super().__init__()
        n_kv_heads = config.n_kv_heads or n_heads
        if n_kv_heads < 1 or n_heads % n_kv_heads:
            raise ConfigError([f"n_kv_heads={n_kv_heads}: must divide n_heads={n_heads}"])
        self.n_kv_heads, self.group = n_kv_heads, n_heads // n_kv_heads
        self.d_head, self.cross = d_head, cross
        self.weight_dropout = attention_dropout
        query = {"query": n_heads * d_head}
        memory = {"key": n_kv_heads * d_head, "value": n_kv_heads * d_head}
        self.project = Joint(d_model, query if cross else query | memory, config.bias)
        if cross:
            self.project_memory = Joint(d_model, memory, config.bias)
        self.out = nn.Linear(n_heads * d_head, d_model, bias=config.bias)
        self.position, self.scale, self.similarity, self.path = position, scale, similarity, path

    def heads(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> State:
        if self.cross:
            assert context.memory is not None, "cross-attention needs a memory"
            key, value = self.project_memory(context.memory)
            return self.heads(key), self.heads(value)
        shape = (like_BD.shape[0], self.n_kv_heads, capacity, self.d_head)
        return like_BD.new_zeros(shape), like_BD.new_zeros(shape)

    def forward(
        self, x_BTD: Tensor, context: Context, state: State | None = None
    ) -> tuple[Tensor, State | None]:
        bias_BHTS = None
        if self.cross:
            q_BHTK = self.heads(*self.project(x_BTD))
            k_BGSK, v_BGSK = state or self.start(x_BTD[:, 0], 0, context)
            q_BHTK, k_BGSK = self.similarity(q_BHTK, k_BGSK)
            q_BHTK, factor = self.scale(q_BHTK)
            real_BS = context.memory_real
        else:
            q_BHTK, k_BGSK, v_BGSK = (self.heads(part) for part in self.project(x_BTD))
            q_BHTK, k_BGSK = self.position.rotate(q_BHTK, k_BGSK, context.positions)
            q_BHTK, k_BGSK = self.similarity(q_BHTK, k_BGSK)
            q_BHTK, factor = self.scale(q_BHTK)
            if state is not None:
                end = context.start + x_BTD.shape[1]
                for cache, new in zip(state, (k_BGSK, v_BGSK), strict=True):
                    cache[:, :, context.start : end] = new
                k_BGSK, v_BGSK = (cache[:, :, :end] for cache in state)
            bias_BHTS = self.bias(q_BHTK, factor, context)
            # Padding stands to the right, where no real query of a causal model looks.
            real_BS = None if context.causal else context.real
        if self.group > 1:
            k_BGSK, v_BGSK = (part.repeat_interleave(self.group, 1) for part in (k_BGSK, v_BGSK))
        y_BHTK, weights_BHTS = self.path(
            q_BHTK,
            k_BGSK,
            v_BGSK,
            factor,
            causal=context.causal and not self.cross,
            keep_BHTS=None if real_BS is None else real_BS[:, None, None],
            bias_BHTS=bias_BHTS,
            dropout=self.weight_dropout if self.training else 0.0,
        )
        if context.weights is not None and weights_BHTS is not None:
            context.weights.append(weights_BHTS)
        return self.out(y_BHTK.transpose(1, 2).flatten(2)), state

    def bias(self, q_BHTK: Tensor, factor: float, context: Context) -> Tensor | None:
        """What the position scheme adds to the scores."""
        fixed_HTS = self.position.bias(context.positions, context.seen)
        by_query_BHTS = self.position.score(q_BHTK, context.positions, context.seen)
        if by_query_BHTS is None:
            return fixed_HTS
        by_query_BHTS = by_query_BHTS * factor
        return by_query_BHTS if fixed_HTS is None else fixed_HTS + by_query_BHTS
