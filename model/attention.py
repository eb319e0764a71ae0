"""Attention: scale, similarity, mask, and the paths that compute it.

softmax(similarity(q, k) · scale + bias) v over the keys that may be seen (Vaswani et al. 2017,
eq. 1). All paths give the same numbers up to rounding.

B: sequences, H: heads, T: queries, S: keys, K: width of a head.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.batch import Batch
from model.config import Checked, ConfigError, Registry, ranged
from model.layers import evaluating, hooked

PATH = Registry("path")
MASK = Registry("mask")
SCALE = Registry("scale")
SIMILARITY = Registry("similarity")


@SCALE.register("none")
class Scale(nn.Module):
    """1: a softmax of the raw dot products. Subclasses change the factor or the queries."""

    factor: float = 1.0

    def scaled(self, q_BHTK: Tensor) -> tuple[Tensor, float]:
        return q_BHTK, self.factor


@SCALE.register("sqrt_d_head")
class SqrtHead(Scale):
    """1/√d_head: random scores keep unit variance at any width (Vaswani et al. 2017, 3.2.1)."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.factor = d_head**-0.5


@SCALE.register("sqrt_d_model")
class SqrtModel(Scale):
    """1/√d_model, as some lectures write it."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.factor = d_model**-0.5


@SCALE.register("linear")
class LinearHead(Scale):
    """1/d_head: right where queries and keys are aligned rather than random (Yang et al. 2021)."""

    def __init__(self, d_head: int) -> None:
        super().__init__()
        self.factor = 1 / d_head


@SCALE.register("learned")
class LearnedScale(Scale):
    """e^s with one s for each head (Henry et al. 2020)."""

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        start: float | None = ranged(None, above=0)
        """The scale before training. Left out: 1/√d_head."""

    def __init__(self, config: Config, n_heads: int, d_head: int) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.empty(n_heads))
        self.roles = {"log": math.log(config.start or d_head**-0.5)}

    def scaled(self, q_BHTK: Tensor) -> tuple[Tensor, float]:
        return q_BHTK * self.log.exp()[:, None, None], 1.0


@SIMILARITY.register("dot")
class Similarity(nn.Module):
    """qᵀk: long vectors count more. Subclasses change queries and keys before the product."""

    def compared(self, q_BHTK: Tensor, k_BHSK: Tensor) -> tuple[Tensor, Tensor]:
        return q_BHTK, k_BHSK


@SIMILARITY.register("cosine")
class CosineSimilarity(Similarity):
    """qᵀk / |q||k|: only directions count (Henry et al. 2020).

    A vector shorter than ε is divided by ε: none is divided by zero.
    """

    def compared(self, q_BHTK: Tensor, k_BHSK: Tensor) -> tuple[Tensor, Tensor]:
        return _unit(q_BHTK), _unit(k_BHSK)


def _unit(x_BHTK: Tensor) -> Tensor:
    """Normalised. In half precision 1e-12 would be zero."""
    eps = 1e-12 if torch.finfo(x_BHTK.dtype).bits > 16 else 1e-3
    return F.normalize(x_BHTK, dim=-1, eps=eps)


@MASK.register("infinity")
class Infinity(nn.Module):
    """Hidden scores become −∞, so their weight is exactly zero."""

    hides = True

    def forward(self, scores_BHTS: Tensor, seen: Tensor) -> Tensor:
        return scores_BHTS.masked_fill(~seen, float("-inf"))


@MASK.register("zero")
class Zero(nn.Module):
    """Hidden scores become 0, and e⁰ = 1, so the future keeps weight: a mistake, for a claim."""

    hides = False

    def forward(self, scores_BHTS: Tensor, seen: Tensor) -> Tensor:
        return scores_BHTS * seen


def visible(
    q_BHTK: Tensor, k_BHSK: Tensor, causal: bool, keep_BHTS: Tensor | None
) -> Tensor | None:
    """Which keys a query may see: None for all. The last query is at the last key."""
    if not causal:
        return keep_BHTS
    T, S = q_BHTK.shape[-2], k_BHSK.shape[-2]
    past_TS = torch.ones(T, S, dtype=torch.bool, device=q_BHTK.device).tril(S - T)
    return past_TS if keep_BHTS is None else past_TS & keep_BHTS


class Shown(nn.Module):
    """B H T S: passes weights through, for the hook of `attention`."""

    @property
    def is_watched(self) -> bool:
        return bool(self._forward_hooks)

    def forward(self, weights_BHTS: Tensor) -> Tensor:
        return weights_BHTS


class Path(nn.Module):
    """Queries, keys and values in, mixed values and (where the path has them) weights out."""

    hides = True  # whether the causal mask truly hides the future; padding is always hidden


@PATH.register("explicit")
class Explicit(Path):
    """Two matrix products with every score written out between them; memory grows with T × S."""

    def __init__(self, mask: nn.Module) -> None:
        super().__init__()
        self.mask = mask
        self.hides = bool(mask.hides)

    def scores(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        return q_BHTK @ k_BHSK.transpose(-2, -1)

    def mix(self, weights_BHTS: Tensor, v_BHSK: Tensor) -> Tensor:
        return weights_BHTS @ v_BHSK

    def forward(
        self,
        q_BHTK: Tensor,
        k_BHSK: Tensor,
        v_BHSK: Tensor,
        scale: float,
        causal: bool = False,
        keep_BHTS: Tensor | None = None,
        bias_BHTS: Tensor | None = None,
        dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor | None]:
        scores_BHTS = self.scores(q_BHTK * scale, k_BHSK)
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + bias_BHTS
        past = visible(q_BHTK, k_BHSK, causal, None)
        if past is not None:
            scores_BHTS = self.mask(scores_BHTS, past)
        if keep_BHTS is not None:
            scores_BHTS = scores_BHTS.masked_fill(~keep_BHTS, float("-inf"))
        weights_BHTS = scores_BHTS.softmax(dim=-1)
        return self.mix(F.dropout(weights_BHTS, dropout), v_BHSK), weights_BHTS


@PATH.register("row")
class RowByRow(Explicit):
    """One query at a time against all keys."""

    def scores(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        rows = [(k_BHSK @ q_BHK[..., None])[..., 0] for q_BHK in q_BHTK.unbind(-2)]
        return torch.stack(rows, dim=-2)

    def mix(self, weights_BHTS: Tensor, v_BHSK: Tensor) -> Tensor:
        rows = [(w_BHS[..., None, :] @ v_BHSK)[..., 0, :] for w_BHS in weights_BHTS.unbind(-2)]
        return torch.stack(rows, dim=-2)


@PATH.register("loop")
class Loop(Explicit):
    """One query and one key at a time: a dot product for each pair."""

    def scores(self, q_BHTK: Tensor, k_BHSK: Tensor) -> Tensor:
        rows = [
            torch.stack([(q_BHK * k_BHK).sum(-1) for k_BHK in k_BHSK.unbind(-2)], dim=-1)
            for q_BHK in q_BHTK.unbind(-2)
        ]
        return torch.stack(rows, dim=-2)

    def mix(self, weights_BHTS: Tensor, v_BHSK: Tensor) -> Tensor:
        rows = []
        for w_BHS in weights_BHTS.unbind(-2):
            pairs = zip(w_BHS.unbind(-1), v_BHSK.unbind(-2), strict=True)
            rows.append(sum(w_BH[..., None] * v_BHK for w_BH, v_BHK in pairs))
        return torch.stack(cast(list[Tensor], rows), dim=-2)


@PATH.register("fused")
class Fused(Path):
    """One library kernel that need not keep the scores; it has no weights to show."""

    def __init__(self, mask: nn.Module) -> None:
        super().__init__()
        if not mask.hides:
            raise ConfigError(["path=fused: the kernel masks with −∞ alone; choose path=explicit"])

    def forward(
        self,
        q_BHTK: Tensor,
        k_BHSK: Tensor,
        v_BHSK: Tensor,
        scale: float,
        causal: bool = False,
        keep_BHTS: Tensor | None = None,
        bias_BHTS: Tensor | None = None,
        dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor | None]:
        mask: Tensor | None = None
        # The kernel's own causal mask is aligned to the first key, so it serves T = S alone.
        plain_causal = False
        if causal and keep_BHTS is None and bias_BHTS is None:
            plain_causal = bool(q_BHTK.shape[-2] == k_BHSK.shape[-2])  # compiled, it is a symbol
        if not plain_causal:
            last_of_all = causal and q_BHTK.shape[-2] == 1  # one query at the end sees every key
            mask = visible(q_BHTK, k_BHSK, causal and not last_of_all, keep_BHTS)
            if bias_BHTS is not None:
                mask = bias_BHTS if mask is None else bias_BHTS.masked_fill(~mask, float("-inf"))
                mask = mask[None] if mask.dim() == 3 else mask  # only four take the fast kernel
        y_BHTK = F.scaled_dot_product_attention(
            q_BHTK, k_BHSK, v_BHSK, mask, dropout, is_causal=plain_causal, scale=scale
        )
        return y_BHTK, None


@torch.inference_mode()
def attention(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Module name → attention weights, B H T S, with one head in recurrent models; the fused path
    has none."""
    named = model.named_modules()
    names: dict[nn.Module, str] = {
        module: name for name, module in named if isinstance(module, Shown)
    }
    found: dict[str, Tensor] = {}

    def keep(module: nn.Module, given: Any, weights_BHTS: Tensor) -> None:
        found[names[module].removesuffix(".shown")] = weights_BHTS

    with hooked(names, keep), evaluating(model):
        model(batch)
    return found
