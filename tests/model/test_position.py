"""Position schemes against their formulas."""

from __future__ import annotations

import pytest
import torch
from given_weights import assert_equals, random, randomised
from slow_formulas import sinusoid

from model.build import build
from model.generate import greedy
from model.position import POSITION


@pytest.mark.parametrize("width", [8, 7], ids=["even", "odd"])
@pytest.mark.parametrize("base", [10_000.0, 50.0])
def test_sinusoidal_adds_sines_and_cosines_of_falling_frequency(width: int, base: float) -> None:
    scheme = POSITION.build({"name": "sinusoidal", "base": base}, d_model=width)
    x_BTD, at = random(2, 4, width), [0, 1, 5, 4000]
    by_hand = [
        [[v + p for v, p in zip(token, sinusoid(position, width, base), strict=True)]
         for token, position in zip(sequence, at, strict=True)]
        for sequence in x_BTD.tolist()
    ]  # fmt: skip
    assert_equals(scheme.embed(x_BTD, torch.tensor(at)), by_hand)


def test_sinusoidal_keeps_the_phase_of_far_positions_in_single_precision() -> None:
    scheme = POSITION.build("sinusoidal", d_model=8)
    far = scheme.embed(torch.zeros(1, 1, 8), torch.tensor([1_000_003]))[0, 0]
    exact = torch.tensor(sinusoid(1_000_003, 8), dtype=torch.float32)
    torch.testing.assert_close(far, exact, rtol=1e-6, atol=1e-6)


def test_learned_adds_the_row_of_its_table() -> None:
    scheme = randomised(POSITION.build("learned", d_model=4, max_len=6))
    x_BTD, at = random(2, 3, 4), [5, 0, 2]
    table = scheme.table.weight.tolist()
    by_hand = [
        [[v + p for v, p in zip(token, table[row], strict=True)]
         for token, row in zip(sequence, at, strict=True)]
        for sequence in x_BTD.tolist()
    ]  # fmt: skip
    assert_equals(scheme.embed(x_BTD, torch.tensor(at)), by_hand)


def test_learned_has_no_answer_past_its_table_and_says_what_to_do() -> None:
    scheme = POSITION.build("learned", d_model=4, max_len=6)
    with pytest.raises(ValueError, match=r"max_len=6.*raise max_len"):
        scheme.embed(torch.zeros(1, 7, 4), torch.arange(7))


def test_learned_says_so_too_when_it_is_reached_step_by_step() -> None:
    choice = {"name": "transformer", "kind": "decoder", "d_model": 8, "max_len": 4}
    model = build({**choice, "position": "learned"}, None, 50, seed=0)
    with pytest.raises(ValueError, match=r"max_len=4.*raise max_len"):
        greedy(model, torch.zeros(1, 1, dtype=torch.long), None, max_new=5)


def test_none_adds_nothing_anywhere() -> None:
    scheme = POSITION.build("none")
    x_BTD, at = random(2, 3, 4), torch.arange(3)
    q, k = random(2, 1, 3, 4), random(2, 1, 3, 4, seed=2)
    assert scheme.embed(x_BTD, at) is x_BTD
    assert scheme.rotate(q, k, at) == (q, k)
    assert scheme.bias(at, at) is None
    assert scheme.score(q, at, at) is None
