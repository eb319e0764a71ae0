"""Scaled dot-product attention: the paths that compute it.

softmax(q kᵀ · scale + bias) v over the keys that may be seen (Vaswani et al. 2017, eq. 1).
All paths give the same numbers up to rounding.

B: sequences, H: heads, T: queries, S: keys, K: width of a head.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.family import Family

PATH = Family("path")


def visible(
    q_BHTK: Tensor, k_BHSK: Tensor, causal: bool, keep_BHTS: Tensor | None
) -> Tensor | None:
    """Which keys a query may see: None for all. The last query stands at the last key."""
    if not causal:
        return keep_BHTS
    T, S = q_BHTK.shape[-2], k_BHSK.shape[-2]
    past_TS = torch.ones(T, S, dtype=torch.bool, device=q_BHTK.device).tril(S - T)
    return past_TS if keep_BHTS is None else past_TS & keep_BHTS


@PATH.register("explicit")
class Explicit(nn.Module):
    """Every score is written out, so the weights can be looked at; memory grows with T × S."""

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
        scores_BHTS = (q_BHTK * scale) @ k_BHSK.transpose(-2, -1)
        if bias_BHTS is not None:
            scores_BHTS = scores_BHTS + bias_BHTS
        seen = visible(q_BHTK, k_BHSK, causal, keep_BHTS)
        if seen is not None:
            scores_BHTS = scores_BHTS.masked_fill(~seen, float("-inf"))
        weights_BHTS = scores_BHTS.softmax(dim=-1)
        return F.dropout(weights_BHTS, dropout) @ v_BHSK, weights_BHTS


@PATH.register("fused")
class Fused(nn.Module):
    """One library kernel that need not keep the scores; it has no weights to show."""

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
        plain_causal = causal and keep_BHTS is None and bias_BHTS is None
        plain_causal = plain_causal and q_BHTK.shape[-2] == k_BHSK.shape[-2]
        if not plain_causal:
            mask = visible(q_BHTK, k_BHSK, causal, keep_BHTS)
            if bias_BHTS is not None:
                mask = bias_BHTS if mask is None else bias_BHTS.masked_fill(~mask, float("-inf"))
        y_BHTK = F.scaled_dot_product_attention(
            q_BHTK, k_BHSK, v_BHSK, mask, dropout, is_causal=plain_causal, scale=scale
        )
        return y_BHTK, None
