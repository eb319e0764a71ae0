"""A step along the positions: one rotation for sinusoids, no one map for a table."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from small_models import PAIRS, TEXT, transformer
from torch import Tensor

from ablations.measure.positions import OFFSETS, TIMES, Offset, residual, vectors
from model.build import build
from model.positions import InputScheme

CPU = torch.device("cpu")
WIDTH = 8


def read(task: Any = TEXT, **changes: Any) -> dict[Any, float]:
    readings = Offset().take(transformer(**{"max_len": 512, **changes}), task, CPU).readings
    return {reading.at["offset"]: float(reading.value or 0.0) for reading in readings}


def of_model(**changes: Any) -> Tensor:
    model = build(transformer(**{"max_len": 512, **changes})["model"], None, TEXT.target_size, 0)
    (scheme,) = (part for part in model.modules() if isinstance(part, InputScheme))
    return vectors(scheme)


def rotation(offset: int) -> Tensor:
    """From the angles' sums: sin(a + b) = sin a cos b + cos a sin b, cos likewise."""
    map_WW = torch.zeros(WIDTH, WIDTH, dtype=torch.float64)
    for i in range(0, WIDTH, 2):
        turn = offset / 10_000 ** (i / WIDTH)
        map_WW[i, i] = map_WW[i + 1, i + 1] = math.cos(turn)
        map_WW[i + 1, i], map_WW[i, i + 1] = math.sin(turn), -math.sin(turn)
    return map_WW


@pytest.mark.parametrize("offset", OFFSETS)
def test_a_rotation_takes_a_sinusoid_to_the_one_further_on(offset: int) -> None:
    p_TW = of_model(position={"name": "sinusoidal"})
    torch.testing.assert_close(p_TW[:-offset] @ rotation(offset), p_TW[offset:], rtol=0, atol=1e-13)
    assert residual(p_TW, offset) < 1e-13


@pytest.mark.parametrize("width", [8, 64, 128])
def test_sinusoids_leave_nothing_over_and_learned_vectors_almost_all(width: int) -> None:
    settings = {"d_model": width, "max_len": 2048}
    assert max(read(position={"name": "sinusoidal"}, **settings).values()) < 1e-12
    # Of random numbers a map of W columns explains W of T.
    expected = pytest.approx(math.sqrt(1 - 1 / TIMES), rel=0.1)
    assert read(position={"name": "learned"}, **settings) == dict.fromkeys(OFFSETS, expected)


def test_an_intercept_is_not_given() -> None:
    """pos + k is m pos for no m; the best is m = Σ pos (pos + k) / Σ pos²."""
    n, k = TIMES, 4
    m = sum(pos * (pos + k) for pos in range(n)) / sum(pos * pos for pos in range(n))
    left = math.sqrt(sum((m * pos - pos - k) ** 2 for pos in range(n)))
    whole = math.sqrt(sum((pos + k) ** 2 for pos in range(n)))
    found = read(position={"name": "index", "join": "concat"})
    assert found[k] == pytest.approx(left / whole, rel=1e-12)
    assert found[k] > 0.1


def test_one_number_that_was_moved_is_seen() -> None:
    p_TW = of_model(position={"name": "sinusoidal"}).clone()
    p_TW[7, 3] += 1e-6
    assert 1e-9 < residual(p_TW, 1) < 1e-6


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


@pytest.mark.parametrize("name", ["none", "rotary", "alibi", "t5", "shaw"])
def test_a_scheme_without_vectors_at_the_input_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"choose model\.position sinusoidal"):
        read(position={"name": name})
