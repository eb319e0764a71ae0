"""The costs of a model of any depth, from a few of its blocks: those that follow are alike."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import nn

from model.architecture import MODEL
from model.build import build
from model.config import ConfigError
from model.count import Cost, count
from model.meter import signature
from model.recurrent.language import Recurrent
from model.transformer import Transformer

FEW = 3  # the first block of a stack may hold what all of them share
MANY = 32  # where a part asks for its layer's number, and may change from block to block
LAYER, DEPTH = {"layer"}, {"depth"}  # what constructors call these numbers


@dataclass(frozen=True)
class Sketch:
    """A model on the meta device that may have fewer blocks than it is to have."""

    model: nn.Module
    cost: Cost
    """Of all blocks."""
    more: int = 0
    """Blocks that each stack lacks."""
    lasts: frozenset[str] = frozenset()
    """Places of those that stand for the lacking ones too."""


def sketch(config: dict[str, Any], source_size: int, target_size: int, length: int) -> Sketch:
    """The model and what it costs for one sequence of `length` tokens on each side."""

    def built(depth: int) -> nn.Module:
        return build({**config, "depth": depth}, source_size, target_size, seed=None)

    try:
        with torch.device("meta"):
            for depth in _shallow(config):
                model, before = built(depth), built(depth - 1)
                lists = _growing(before, model)
                if all(_are_alike(blocks[depth // 2 :]) for blocks in lists.values()):
                    more = config["depth"] - depth
                    last, previous = (count(each, length, length) for each in (model, before))
                    places = frozenset(f"{place}.{depth - 1}" for place in lists)
                    return Sketch(model, last.extended(previous, more), more, places)
            model = build(config, source_size, target_size, seed=None)
            return Sketch(model, count(model, length, length))
    except RuntimeError as error:
        if "overflow" not in str(error):
            raise
        raise ConfigError(["no tensor can be that large: choose smaller sizes"]) from None


def _shallow(config: dict[str, Any]) -> Iterator[int]:
    """Depths that may stand for the model's; none where only all of its blocks will do."""
    part = MODEL.parts[config["name"]]
    if part not in (Transformer, Recurrent):
        return
    chosen = [
        field.metadata["family"].parts[config[field.name]["name"]]
        for field in fields(part.Config)
        if "family" in field.metadata
    ]
    asked = {name for each in chosen for name in inspect.signature(each).parameters}
    if asked & DEPTH:
        return
    depth = MANY if asked & LAYER else FEW
    while depth < config["depth"]:
        yield depth
        depth *= 2


def _growing(before: nn.Module, model: nn.Module) -> dict[str, nn.ModuleList]:
    """Where a model has more blocks than another of less depth."""
    others = dict(before.named_modules())
    return {
        place: part
        for place, part in model.named_modules()
        if isinstance(part, nn.ModuleList) and place in others and len(part) > len(others[place])
    }


def _are_alike(blocks: nn.ModuleList) -> bool:
    first, *others = map(signature, blocks)
    return all(other == first for other in others)
