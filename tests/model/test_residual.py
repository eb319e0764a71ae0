"""How sublayers join the stream, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import Vector, add, layer_norm
from torch import Tensor

from model.build import build
from model.norms import NORM
from model.residual import RESIDUAL

WIDTH, SUBLAYERS = 6, 3
NORMS = {"pre": 3, "post": 3, "sandwich": 6, "parallel": 1, "none": 3}
Step = Callable[[Vector], Vector]


def made(name: str, dropout: float = 0.0) -> Any:
    def make_norm() -> torch.nn.Module:
        return NORM.build("layer", d_model=WIDTH)

    return randomised(
        RESIDUAL.build(name, make_norm=make_norm, sublayers=SUBLAYERS, dropout=dropout)
    )


def sublayer(number: int) -> Callable[[Tensor], Tensor]:
    return lambda x: (x * (number + 1)).sin() + 0.3 * x.roll(1, -1)


def sublayer_by_hand(number: int) -> Step:
    def f(x: Vector) -> Vector:
        return [math.sin(v * (number + 1)) + 0.3 * x[i - 1] for i, v in enumerate(x)]

    return f


def by_hand(name: str, x: Vector, norms: list[Step], steps: list[Step]) -> Vector:
    if name == "parallel":
        normed, summed = norms[0](x), x
        for f in steps:
            summed = add(summed, f(normed))
        return summed
    for i, f in enumerate(steps):
        match name:
            case "pre":
                x = add(x, f(norms[i](x)))
            case "post":
                x = norms[i](add(x, f(x)))
            case "sandwich":
                x = add(x, norms[2 * i + 1](f(norms[2 * i](x))))
            case "none":
                x = f(norms[i](x))
    return x


@pytest.mark.parametrize("name", sorted(RESIDUAL.components))
def test_a_residual_part_is_its_equation(name: str) -> None:
    residual = made(name)
    assert len(residual.norms) == NORMS[name]
    norms = [lambda x, n=norm: layer_norm(x, *affine(n)) for norm in residual.norms]
    x_BTD = random(2, 3, WIDTH)
    y_BTD = residual(x_BTD, [sublayer(i) for i in range(SUBLAYERS)])
    steps = [sublayer_by_hand(i) for i in range(SUBLAYERS)]
    expected = [[by_hand(name, x, norms, steps) for x in rows] for rows in x_BTD.tolist()]
    assert_equals(y_BTD, expected)


@pytest.mark.parametrize("name", sorted(RESIDUAL.components))
@pytest.mark.parametrize("written", [None, True, False])
def test_a_stack_ends_in_a_norm_as_the_residual_part_has_it_or_as_written(
    name: str, written: bool | None
) -> None:
    choice = {"name": "transformer", "d_model": 8, "n_heads": 2, "depth": 1, "norm": "rms"}
    stack = build({**choice, "residual": name, "final_norm": written}, None, 9, seed=0).decoder
    expected = name != "post" if written is None else written
    assert isinstance(stack.norm, torch.nn.RMSNorm if expected else torch.nn.Identity)


@pytest.mark.parametrize("name", sorted(RESIDUAL.components))
def test_dropout_takes_what_a_sublayer_adds_and_never_the_stream(name: str) -> None:
    x_BTD, residual = random(2, 3, WIDTH), made(name, dropout=1.0).train()
    expected = torch.zeros_like(x_BTD) if name == "none" else x_BTD
    for norm in residual.norms if name == "post" else []:
        expected = norm(expected)
    left = residual(x_BTD, [sublayer(i) for i in range(SUBLAYERS)])
    torch.testing.assert_close(left, expected)
