"""What a model costs, counted without running it."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from model.batch import Batch


def parameters(model: nn.Module) -> int:
    """Trained numbers; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flops_per_token(model: nn.Module, source_length: int | None, length: int) -> float:
    """Forward floating-point operations for each input token, source and target together.

    Matrix products and attention, a multiply and an add each; causal attention counts as full
    attention. `model` must live on the meta device, where every kernel is counted.
    """
    inputs = torch.zeros(1, length, dtype=torch.long, device="meta")
    source = None
    if source_length is not None:
        source = torch.zeros(1, source_length, dtype=torch.long, device="meta")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.eval()(Batch(labels=inputs, inputs=inputs, source=source))
    return counter.get_total_flops() / (length + (source_length or 0))
