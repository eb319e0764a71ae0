"""How alike positions are is what the vectors say, computed slowly."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from torch import nn

from ablations.measure.positions import MOST, Positions
from ablations.tasks.task import Task
from model.build import build

SIZE = 12


def taken(position: dict[str, Any], **model: Any) -> Any:
    config = {"name": "transformer", "kind": "decoder", "d_model": 8, "depth": 1, "n_heads": 2,
              "max_len": 40, "position": position, **model}  # fmt: skip
    own = build(config, None, SIZE, seed=0)
    return own, Positions().take(own, cast(Task, None), torch.device("cpu"), 7).readings


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    dot = sum(float(a) * float(b) for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(float(a) ** 2 for a in one) * sum(float(b) ** 2 for b in other))


def test_learned_positions_are_as_alike_as_the_rows_of_their_table() -> None:
    model, (reading,) = taken({"name": "learned"})
    (table,) = [m for m in model.modules() if isinstance(m, nn.Embedding)
                and m.num_embeddings == 40]  # fmt: skip
    assert reading.at == {"step": 7, "stack": "decoder"}
    assert len(reading.values) == len(reading.values[0]) == MOST
    for i in (0, 3, 31):
        for j in (0, 5, 30):
            expected = cosine(table.weight[i].detach(), table.weight[j].detach())
            assert reading.values[i][j] == pytest.approx(expected, abs=1e-4)


def test_sinusoids_are_as_alike_as_they_are_far_apart() -> None:
    _, (reading,) = taken({"name": "sinusoidal"})
    for distance in (1, 4, 20):
        along = {reading.values[i][i + distance] for i in range(MOST - distance)}
        assert max(along) - min(along) < 2e-4
    assert all(reading.values[i][i] == 1.0 for i in range(MOST))


def test_no_more_positions_are_read_than_there_are() -> None:
    _, (reading,) = taken({"name": "learned"}, max_len=9)
    assert reading.axes == {"position": list(range(9)), "other": list(range(9))}


def test_without_vectors_at_the_input_it_says_so() -> None:
    _, (reading,) = taken({"name": "rotary"})
    assert reading.value is None
    assert reading.reason == "this model has no vectors of positions at its input"
