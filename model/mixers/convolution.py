"""Convolution over positions: each token reads the few around it.

B: sequences, T: positions, D: d_model, k: kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.config import Checked, ranged
from model.mixers import MIXER, Context, Mixer, MixerState


@MIXER.register("convolution")
class Convolution(Mixer):
    """y_t = b + Σ_j W_j x_{t + (j − l) · dilation} for j = 0 … k − 1 (Gehring et al. 2017).

    Causal: l = k − 1, so the last tap is the token itself. Otherwise the kernel is centred: l =
    ⌊k/2⌋, and an even kernel reads one more to the left than to the right. What lies before the
    first token, after the last or in the padding is zero.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config(Checked):
        kernel: int = ranged(3, least=1)
        """Taps."""
        dilated: bool = False
        """Whether layer i = 0, 1 … has its taps kernelⁱ apart (but never above max_len), so that L
        layers see kernelᴸ positions without a gap (van den Oord et al. 2016)."""
        bias: bool = True
        """Whether the taps, and the cross-attention if there is one, have a bias."""

    def __init__(
        self, config: Config, d_model: int, layer: int, max_len: int, causal: bool
    ) -> None:
        super().__init__()
        self.kernel, self.causal = config.kernel, causal
        self.dilation = min(config.kernel**layer, max_len) if config.dilated else 1
        self.span = (config.kernel - 1) * self.dilation  # from the first tap to the last
        self.taps = nn.Linear(config.kernel * d_model, d_model, bias=config.bias)

    def start(self, like_BD: Tensor, capacity: int, context: Context) -> MixerState:
        assert self.causal, "a centred kernel has no state to go on from"
        return (like_BD.new_zeros(len(like_BD), self.span, like_BD.shape[1]),)

    def forward(
        self, x_BTD: Tensor, context: Context, state: MixerState | None = None
    ) -> tuple[Tensor, MixerState | None]:
        if context.real is not None and not context.causal:
            x_BTD = x_BTD.masked_fill(~context.real[..., None], 0.0)
        if state is None:
            left = self.span if context.causal else self.kernel // 2 * self.dilation
            x_BTD = F.pad(x_BTD, (0, 0, left, self.span - left))
        else:
            length = x_BTD.shape[1]
            x_BTD = torch.cat((*state, x_BTD), dim=1)
            state = (x_BTD[:, length:],)
        # A row of the weight holds all taps of one output, so initial values are scaled by all.
        weight_DDk = self.taps.weight.unflatten(1, (self.kernel, -1)).transpose(1, 2)
        y_BDT = F.conv1d(x_BTD.transpose(1, 2), weight_DDk, self.taps.bias, dilation=self.dilation)
        return y_BDT.transpose(1, 2), state
