"""What a model costs: parameters, operations and memory, each by kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch
from torch import nn

from model.batch import Batch
from model.embedding import Embedding
from model.family import Family
from model.feedforward import FEEDFORWARD
from model.head import Head
from model.meter import Meter
from model.norm import NORM
from model.positions import Position
from model.recurrent.seq2seq import MLP
from model.residual import Residual

KINDS = (
    "embedding", "positions", "projections", "mixing", "feedforward", "norms", "head", "other",
)  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """Of one forward pass over one sequence, or over one source and one target."""

    parameters: dict[str, int]
    """By kind; a tied weight counts once, where it stands first."""
    flops: dict[str, int]
    """By kind: matrix products and attention, a multiply and an add each; causal counts as full."""
    tokens: int
    """Read, source and target together."""
    kept_bytes: int
    """What waits for the backward pass, up to the logits and without the weights."""

    @property
    def flops_per_token(self) -> float:
        return sum(self.flops.values()) / self.tokens


def parameters(model: nn.Module) -> int:
    """Trained numbers; a tied weight counts once."""
    return sum(parameter.numel() for parameter in model.parameters())


def flops_per_token(model: nn.Module, source_length: int | None, length: int) -> float:
    """Forward operations for each token that is read; `model` must live on the meta device."""
    return count(model, source_length, length).flops_per_token


def count(model: nn.Module, source_length: int | None, length: int) -> Cost:
    """All costs of a model on the meta device.

    Projections are the `nn.Linear` layers that a mixer applies to its tokens; mixing is all else
    in a mixer, a convolution's taps and a recurrence's gates included. Attention on the fused path
    keeps what a fused kernel keeps, a recurrent kernel what its steps would.
    """
    inputs = torch.zeros(1, length, dtype=torch.long, device="meta")
    source = None
    if source_length is not None:
        source = torch.zeros(1, source_length, dtype=torch.long, device="meta")
    batch = Batch(labels=inputs, inputs=inputs, source=source)
    kinds = kinds_of(model)
    meter = Meter(model, kinds)
    meter.run(batch)
    for module in kinds.keys() - meter.called:
        if kinds[module] == "projections":
            kinds[module] = "mixing"  # a convolution reads its taps itself
    sizes: Counter[str] = Counter()
    for name, parameter in model.named_parameters():
        sizes[kinds[model.get_submodule(name.rpartition(".")[0])]] += parameter.numel()
    return Cost(
        parameters={kind: sizes[kind] for kind in KINDS},
        flops={kind: meter.flops[kind] for kind in KINDS},
        tokens=meter.tokens or length + (source_length or 0),
        kept_bytes=meter.kept,
    )


def kinds_of(model: nn.Module) -> dict[nn.Module, str]:
    """What each module's weights and products count as: mixing, unless it belongs to another."""
    owners = (
        (Embedding, "embedding"),
        (Position, "positions"),
        (_classes(NORM), "norms"),
        (_classes(FEEDFORWARD), "feedforward"),
        (Head, "head"),
        (Residual, "other"),
    )
    found: dict[nn.Module, str] = {}

    def walk(module: nn.Module, kind: str) -> None:
        kind = next((word for owner, word in owners if isinstance(module, owner)), kind)
        if kind == "mixing" and isinstance(module, nn.Linear):
            kind = "projections"
        found.setdefault(module, kind)
        for below in module.children():
            walk(below, kind)

    walk(model, "mixing")
    for module in model.modules():
        if isinstance(module, MLP):
            found[module.weigh] = "mixing"  # of pairs of tokens, not of tokens
    return found


def _classes(family: Family) -> tuple[type, ...]:
    return tuple(part for part in family.parts.values() if isinstance(part, type))
