"""A few blocks tell what all of them cost, against models that are built whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from model.extrapolate import FEW, MANY, Sketch
from torch import nn

from model import preset
from model.block import Block
from model.build import build, resolve
from model.count import Cost, count
from model.describe import as_text, describe
from model.mixer import MIXER
from model.mixer.convolution import Convolution
from model.residual import RESIDUAL, PreNorm

V, LENGTH, DEPTH = 9, 7, 7
SMALL = {"name": "transformer", "d_model": 12, "n_heads": 2, "max_len": 16}
CASES: dict[str, dict[str, Any]] = {
    **{name: preset.load(name).model for name in preset.names()},
    "a table for each": {**SMALL, "position": {"name": "t5", "shared": False}},
    "one set of vectors": {**SMALL, "position": {"name": "shaw", "shared": True}},
    "positions again": {**SMALL, "position": {"name": "learned", "every_layer": True}},
    "window": {**SMALL, "mixer": {"name": "window", "reach": 3}, "residual": "parallel"},
    "dilated": {**SMALL, "mixer": {"name": "convolution", "dilated": True}, "residual": "none"},
    "lstm mixer": {**SMALL, "mixer": "lstm", "kind": "encoder_decoder", "residual": "sandwich"},
    "lstm": {"name": "recurrent", "dropout": 0.1},
    "gru": {"name": "recurrent", "cell": {"name": "gru", "form": "steps"}, "score": "mlp"},
    "tied language model": {"name": "recurrent", "kind": "decoder", "tied": True},
}


def built_whole(config: Any) -> tuple[nn.Module, Cost]:
    with torch.device("meta"):
        model = build(config, V, V, seed=None)
        return model, count(model, LENGTH, LENGTH)


@pytest.mark.parametrize("written", CASES.values(), ids=list(CASES))
def test_a_few_blocks_tell_the_costs_and_the_tree_of_all(
    written: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model.extrapolate.MANY", FEW)
    config = resolve({**written, "depth": DEPTH})
    described = describe(config, V, V, LENGTH)
    assert described.sketch.more > 0
    model, cost = built_whole(config)
    assert described.cost == cost
    assert as_text(described, "") == as_text(replace(described, sketch=Sketch(model, cost)), "")


@pytest.mark.parametrize(
    ("changes", "blocks"),
    [
        ({"depth": FEW}, FEW),
        ({"depth": 1000}, 2 * FEW - 1),
        ({"depth": 1000, "kind": "encoder_decoder"}, 2 * (2 * FEW - 1)),
        ({"depth": 1000, "mixer": "convolution"}, 2 * MANY - 1),
    ],
    ids=str,
)
def test_no_more_blocks_are_built_than_tell_them_all(
    changes: Any, blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    make = Block.__init__
    monkeypatch.setattr(Block, "__init__", lambda *given: built.append(1) or make(*given))
    described = describe({**SMALL, **changes}, V, V)
    assert len(built) == blocks
    assert f"{changes['depth']:,} × block" in as_text(described, "")


class EveryOther(Convolution):
    """Wide in every second block."""

    def __init__(self, config: Any, d_model: int, layer: int, max_len: int, causal: bool) -> None:
        super().__init__(replace(config, kernel=1 + layer % 2), d_model, layer, max_len, causal)


class AsManyNormsAsBlocks(PreNorm):
    def __init__(self, make_norm: Any, sublayers: int, dropout: float, depth: int) -> None:
        super().__init__(make_norm, sublayers, dropout)
        self.more = nn.ModuleList(make_norm() for _ in range(depth))


@pytest.mark.parametrize(
    ("place", "family", "part", "depth"),
    [("mixer", MIXER, EveryOther, MANY + 1), ("residual", RESIDUAL, AsManyNormsAsBlocks, FEW + 2)],
    ids=["by layer", "by depth"],
)
def test_blocks_that_differ_by_their_layer_or_by_the_depth_are_all_built(
    place: str, family: Any, part: Any, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(family.parts, "strange", part)
    config = {**SMALL, "depth": depth, place: "strange"}
    described = describe(config, V, V, LENGTH)
    assert described.sketch.more == 0
    assert described.cost == built_whole(config)[1]
