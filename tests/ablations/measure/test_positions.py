"""How alike positions are, and what no linear map between them explains."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import nn

from ablations.measure.positions import MOST, OFFSETS, TIMES, Offset, Positions
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


def test_without_vectors_at_the_input_it_says_so() -> None:
    _, (reading,) = taken({"name": "rotary"})
    assert reading.value is None
    assert reading.reason == "this model has no vectors of positions at its input"


CPU = torch.device("cpu")
WIDTH = 8


def read(task: Any = TEXT, **changes: Any) -> dict[Any, float]:
    readings = Offset().take(transformer(**{"max_len": 512, **changes}), task, CPU).readings
    return {reading.at["offset"]: float(reading.value or 0.0) for reading in readings}


@pytest.mark.parametrize("width", [8, 64, 128])
def test_sinusoids_leave_nothing_over_and_learned_vectors_almost_all(width: int) -> None:
    settings = {"d_model": width, "max_len": 2048}
    assert max(read(position={"name": "sinusoidal"}, **settings).values()) < 1e-12
    # Of random numbers a map of W columns explains W of T.
    expected = pytest.approx(math.sqrt(1 - 1 / TIMES), rel=0.1)
    assert read(position={"name": "learned"}, **settings) == dict.fromkeys(OFFSETS, expected)


def test_the_worse_of_two_stacks_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"kind": "encoder_decoder", "position": {"name": "sinusoidal"}}
    assert max(read(PAIRS, **given).values()) < 1e-12

    def uneven(*words: Any) -> Any:
        model = build(*words)
        scheme = model.decoder.embedding.position  # type: ignore[union-attr]
        vars(scheme)["vectors"] = lambda at_T: at_T[:, None].double() ** 2
        return model

    monkeypatch.setattr("ablations.measure.positions.build", uneven)
    assert min(read(PAIRS, **given).values()) > 1e-3


def test_a_table_that_is_too_short_to_tell_is_refused() -> None:
    needed = TIMES * WIDTH + max(OFFSETS)
    assert read(position={"name": "learned"}, max_len=needed)
    with pytest.raises(ValueError, match=rf"set model\.max_len to at least {needed}"):
        read(position={"name": "learned"}, max_len=needed - 1)
