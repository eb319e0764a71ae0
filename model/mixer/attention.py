"""Multi-head attention, to its own sequence or to a memory.

B: sequences, T: queries, S: keys, D: d_model, H: heads, K: d_head.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from model.attention import Explicit, Fused
from model.family import ConfigError
from model.mixer import MIXER, Context, Mixer, State
from model.position import Position
from model.scale import Scale


class Joint(nn.Linear):
    """Several projections of one input in one matrix product, each with a name of its own."""

    def __init__(self, d_in: int, widths: dict[str, int], bias: bool) -> None:
        super().__init__(d_in, sum(widths.values()), bias=bias)
        self.widths = list(widths.values())
        rows = list(widths.items())
        self.splits = {"weight": rows, "bias": rows}

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:  # type: ignore[override]
        return super().forward(x).split(self.widths, dim=-1)


@MIXER.register("attention")
class Attention(Mixer):
    """Each head weighs values by how well its query fits the keys (Vaswani et al. 2017, 3.2.2)."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        bias: bool = True
        dropout: float = 0.0  # of the weights

        def __post_init__(self) -> None:
            if not 0 <= self.dropout < 1:
                raise ConfigError([f"dropout={self.dropout}: must be from 0 to below 1"])

    crosses = True

    def __init__(
        self,
        config: Config,
        d_model: int,
        n_heads: int,
        d_head: int,
        position: Position,
        scale: Scale,
        path: Explicit | Fused,
        cross: bool,
    ) -> None:
        super().__init__()
        self.n_heads, self.d_head, self.cross = n_heads, d_head, cross
        self.weight_dropout = config.dropout
        width = n_heads * d_head
        rows = {"query": width} if cross else {"query": width, "key": width, "value": width}
        self.project = Joint(d_model, rows, config.bias)
        if cross:
            self.project_memory = Joint(d_model, {"key": width, "value": width}, config.bias)
        self.out = nn.Linear(width, d_model, bias=config.bias)
        self.position, self.scale, self.path = position, scale, path

    def heads(self, x_BTD: Tensor) -> Tensor:
        return x_BTD.unflatten(-1, (-1, self.d_head)).transpose(1, 2)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> State:
        if self.cross:
            assert context.memory is not None, "cross-attention needs a memory"
            key, value = self.project_memory(context.memory)
            return self.heads(key), self.heads(value)
        shape = (like_BD.shape[0], self.n_heads, capacity, self.d_head)
        return like_BD.new_zeros(shape), like_BD.new_zeros(shape)

    def forward(
        self, x_BTD: Tensor, context: Context, state: State | None = None
    ) -> tuple[Tensor, State | None]:
        bias_BHTS = None
        if self.cross:
            (query,) = self.project(x_BTD)
            q_BHTK, factor = self.scale(self.heads(query))
            k_BHSK, v_BHSK = state or self.start(x_BTD[:, 0], 0, context)
            real_BS = context.memory_real
        else:
            q_BHTK, k_BHSK, v_BHSK = (self.heads(part) for part in self.project(x_BTD))
            q_BHTK, k_BHSK = self.position.rotate(q_BHTK, k_BHSK, context.positions)
            q_BHTK, factor = self.scale(q_BHTK)
            if state is not None:
                end = context.start + x_BTD.shape[1]
                for cache, new in zip(state, (k_BHSK, v_BHSK), strict=True):
                    cache[:, :, context.start : end] = new
                k_BHSK, v_BHSK = (cache[:, :, :end] for cache in state)
            bias_BHTS = self.bias(q_BHTK, factor, context)
            # Padding stands to the right, where no real query of a causal model looks.
            real_BS = None if context.causal else context.real
        y_BHTK, weights_BHTS = self.path(
            q_BHTK,
            k_BHSK,
            v_BHSK,
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
