"""A model on one page: its tree, its parameters, its operations and its memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import nn

from model.build import REGISTRIES, build, resolve
from model.cells import Layer
from model.config import ConfigError
from model.flops import Cost, count, signature
from model.layers import Joint

DEFAULT_LENGTH = 512  # for a model that has no max_len
FLOAT = 4  # bytes
NOTES = """
FLOPs are matrix products and attention, a multiply and an add each; causal
attention counts as full attention. Projections are the linear layers of a
mixer, mixing is all else in it. The optimizer is Adam, with two numbers a
weight. Activations are what autograd saves up to the logits, with fused
attention where the model has it; a kernel that refuses dropout or a trained
bias saves the scores too."""


@dataclass(frozen=True)
class Description:
    """A model in float32, and its costs for one sequence of `length` tokens on each side."""

    config: dict[str, Any]
    model: nn.Module
    cost: Cost
    source_size: int | None
    target_size: int
    length: int

    @property
    def parameters(self) -> int:
        return sum(self.cost.parameters.values())

    @property
    def memory(self) -> dict[str, int]:
        """Bytes."""
        weights = FLOAT * self.parameters
        return {"weights": weights, "optimizer": 2 * weights, "activations": self.cost.kept_bytes}

    @property
    def flops_by_kind(self) -> dict[str, float]:
        """FLOPs for each token, by kind."""
        return {kind: flops / self.cost.tokens for kind, flops in self.cost.flops.items()}


def describe(
    written: Any, source_size: int, target_size: int, length: int | None = None
) -> Description:
    """Built on the meta device, without memory for weights. Left out, the length is max_len."""
    config = resolve(written)
    length = length or config.get("max_len", DEFAULT_LENGTH)
    try:
        with torch.device("meta"):
            model = build(config, source_size, target_size, seed=None)
            cost = count(model, length, length)
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise ConfigError(["no tensor can be that large: choose smaller sizes"]) from None
    reads_source = getattr(model, "encoder", None) is not None
    return Description(
        config, model, cost, source_size if reads_source else None, target_size, length
    )


def as_json(description: Description) -> dict[str, Any]:
    return {
        "config": description.config,
        "source_size": description.source_size,
        "target_size": description.target_size,
        "length": description.length,
        "parameters": description.parameters,
        "by_part": description.cost.parameters,
        "flops_per_token": description.cost.flops_per_token,
        "flops_by_kind": description.flops_by_kind,
        **{f"{name.rstrip('s')}_bytes": size for name, size in description.memory.items()},
    }


def as_text(description: Description, title: str) -> str:
    """At most 80 columns."""
    cost, at = description.cost, f"length {description.length:,}"
    token = "token of source and target" if cost.tokens > description.length else "token"
    return "\n".join(
        [
            f"{title}: {description.parameters:,} parameters",
            *_tree(description),
            *_table("Parameters", cost.parameters),
            *_table(f"Forward FLOPs for each {token} at {at}", description.flops_by_kind),
            f"\nMemory of training in float32 at batch 1 and {at}",
            *(f"  {name:<22}{_bytes(size):>20}" for name, size in description.memory.items()),
            NOTES,
        ]
    )


def _table(title: str, numbers: Mapping[str, float]) -> Iterator[str]:
    """Each number and its share of them all, then their sum."""
    total = sum(numbers.values())
    yield f"\n{title}"
    for kind, number in numbers.items():
        if number:
            yield f"  {kind:<14}{number / total:>8.1%}{number:>20,.0f}"
    yield f"  {'total':<22}{total:>20,.0f}"


def _bytes(number: int) -> str:
    size, units = float(number), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size, units = size / 1024, units[1:]
    return f"{size:,.1f} {units[0]}"


def _tree(description: Description) -> Iterator[str]:
    """Each component once, with the weights it owns; equal blocks are folded into one line."""
    owned = {name: weight.numel() for name, weight in description.model.named_parameters()}
    names = {
        component: name
        for registry in REGISTRIES
        for name, component in registry.components.items()
    }
    shown: set[nn.Module] = set()

    def size(place: str) -> int:
        return sum(number for name, number in owned.items() if name.startswith(f"{place}."))

    def lines(module: nn.Module, path: str, indent: str) -> Iterator[str]:
        for name, below in module.named_children():
            members = [(f"{path}{name}", below)]
            if isinstance(below, nn.ModuleList):
                members = [(f"{path}{name}.{key}", each) for key, each in below.named_children()]
            for _, same in groupby(members, lambda member: signature(member[1])):
                group = list(same)
                # Show the last: the first may share a table that the others own.
                place, last = group[-1]
                if last in shown or not (type(last) in names or list(last.parameters())):
                    continue
                shown.update(each for _, each in group)
                weights = sum(size(each) for each, _ in group)
                words = [name, _what(last, names), f"{weights:,}" if weights else ""]
                if len(group) > 1:
                    words[0] = f"{len(group)} × {name.removesuffix('s')}"
                if isinstance(last, nn.Linear | nn.Embedding) and f"{place}.weight" not in owned:
                    words[1] += ", tied"
                yield indent + "  ".join(filter(None, words))
                yield from lines(last, f"{place}.", indent + "  ")

    return lines(description.model, "", "  ")


def _what(module: nn.Module, names: dict[Any, str]) -> str:
    """The component's name, or the sizes of a matrix."""
    if isinstance(module, Joint):
        rows = ", ".join(name for name, _ in module.splits["weight"])
        return f"{module.in_features:,} → {module.out_features:,}: {rows}"
    if isinstance(module, nn.Linear):
        return f"{module.in_features:,} → {module.out_features:,}"
    if isinstance(module, nn.Embedding):
        return f"{module.num_embeddings:,} × {module.embedding_dim:,}"
    if isinstance(module, Layer):
        return f"{names[type(module)]} {module.input_size:,} → {module.hidden_size:,}"
    return names.get(type(module), "")
