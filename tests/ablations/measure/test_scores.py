"""Scores of random queries and keys: their variance, the softmax's entropy, and its gradient."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from ablations.measure.scores import WIDTHS, Scores, entropy_share, jacobian_norm
from model.build import resolve

TASK: Any = None  # has no part in it


def config(scale: Any, seed: int = 0) -> dict[str, Any]:
    return {"model": resolve({"name": "transformer", "scale": scale}), "seed": seed}


def read(scale: Any, seed: int = 0) -> dict[tuple[str, Any], float]:
    readings = Scores().take(config(scale, seed), TASK, torch.device("cpu")).readings
    assert all(reading.value is not None for reading in readings)
    return {(r.metric, r.at["d_head"]): float(r.value or 0.0) for r in readings}


@pytest.mark.parametrize(
    ("scale", "variance"),
    [
        ("none", lambda d: d),
        ("sqrt_d_head", lambda d: 1.0),
        ("sqrt_d_model", lambda d: 1 / 4),  # with four heads
        ("linear", lambda d: 1 / d),
        ("learned", lambda d: 1.0),  # as it starts
        ({"name": "learned", "start": 3.0}, lambda d: 9.0 * d),
    ],
    ids=["none", "sqrt_d_head", "sqrt_d_model", "linear", "learned", "learned from 3"],
)
def test_the_variance_is_the_width_times_the_square_of_the_scale(scale: Any, variance: Any) -> None:
    found = read(scale)
    for width in WIDTHS:
        assert found["score_variance", width] == pytest.approx(variance(width), rel=0.1)


def test_entropy_is_that_of_a_sum_by_hand() -> None:
    p = (0.5, 0.25, 0.125, 0.125)
    by_hand = -sum(each * math.log(each) for each in p) / math.log(4)
    torch.testing.assert_close(entropy_share(torch.tensor(p)), torch.tensor(by_hand))
    torch.testing.assert_close(entropy_share(torch.full((9,), 1 / 9)), torch.tensor(1.0))
    torch.testing.assert_close(entropy_share(torch.eye(5)[2]), torch.tensor(0.0))


@pytest.mark.parametrize("size", [0.0, 1.0, 30.0])
def test_the_norm_is_that_of_the_jacobian_as_autograd_has_it(size: float) -> None:
    generator = torch.Generator().manual_seed(0)
    scores_S = size * torch.randn(7, generator=generator, dtype=torch.float64)

    def softmax(scores_S: Tensor) -> Tensor:
        return scores_S.softmax(-1)

    jacobian_SS: Any = torch.autograd.functional.jacobian(softmax, scores_S)
    torch.testing.assert_close(jacobian_norm(softmax(scores_S)), jacobian_SS.norm())
