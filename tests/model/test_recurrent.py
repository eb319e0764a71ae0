"""The recurrent encoder-decoder, recomputed one number at a time."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from given_weights import affine, assert_equals, random, randomised
from slow_formulas import Matrix, attention, linear, lstm

from model.batch import Batch
from model.build import build
from model.recurrent import CELL, SCORE
from model.recurrent.seq2seq import reverse

SOURCE, SOURCE_LENGTHS = torch.tensor([[3, 7, 4, 5], [6, 3, 0, 0], [5, 0, 0, 0]]), [4, 2, 1]
INPUTS, LENGTHS = torch.tensor([[1, 5, 6], [1, 4, 0], [1, 3, 3]]), [3, 2, 3]


def weights(cell: Any) -> list[Any]:
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    return [getattr(cell, name).tolist() for name in names]


def encoded(encoder: Any, words: list[int]) -> Matrix:
    """Of the real words alone: what is padding never enters."""
    x = [encoder.embedding.weight.tolist()[word] for word in words]
    for ahead, back in zip(encoder.forwards, encoder.backwards, strict=True):
        there = lstm(x, *weights(ahead))
        again = lstm(x[::-1], *weights(back))[::-1]
        x = [a + b for a, b in zip(there, again, strict=True)]
    return x


def decoded(model: Any, words: list[int], memory: Matrix) -> Matrix:
    x = [model.embedding.weight.tolist()[word] for word in words]
    for layer in model.layers:
        x = lstm(x, *weights(layer))
    read = attention(x, memory, memory, 1, lambda t, s: True, scale=1.0)
    joined = [linear(h + m, *affine(model.combine)) for h, m in zip(x, read, strict=True)]
    return [linear([math.tanh(v) for v in token], *affine(model.head)) for token in joined]


@pytest.mark.parametrize("depth", [1, 2])
def test_the_recurrent_model_is_its_equations(depth: int) -> None:
    choice = {"name": "recurrent", "d_model": 6, "depth": depth}
    model: Any = randomised(build(choice, 8, 7, seed=None))
    lengths, source_lengths = torch.tensor(LENGTHS), torch.tensor(SOURCE_LENGTHS)
    logits_BTV = model(Batch(INPUTS, INPUTS, lengths, SOURCE, source_lengths))
    for row, (length, source_length) in enumerate(zip(LENGTHS, SOURCE_LENGTHS, strict=True)):
        memory = encoded(model.encoder, SOURCE[row, :source_length].tolist())
        by_hand = decoded(model, INPUTS[row, :length].tolist(), memory)
        assert_equals(logits_BTV[row, :length], by_hand)


def test_an_lstm_goes_through_its_gates_step_by_step() -> None:
    cell = randomised(CELL.build("lstm", d_in=3, d_hidden=4))
    x_BTD = random(2, 5, 3)
    y_BTH, state = cell.run(x_BTD, cell.start(x_BTD.new_empty(2, 4)))
    assert_equals(y_BTH, [lstm(sequence, *weights(cell)) for sequence in x_BTD.tolist()])
    torch.testing.assert_close(state[0], y_BTH[:, -1], rtol=0, atol=0)


def test_an_lstm_goes_on_from_its_state() -> None:
    cell = randomised(CELL.build("lstm", d_in=3, d_hidden=4))
    x_BTD = random(2, 5, 3)
    whole, end = cell.run(x_BTD, cell.start(x_BTD.new_empty(2, 4)))
    first, state = cell.run(x_BTD[:, :2], cell.start(x_BTD.new_empty(2, 4)))
    second, state = cell.run(x_BTD[:, 2:], state)
    torch.testing.assert_close(torch.cat((first, second), dim=1), whole)
    torch.testing.assert_close(state, end)


def test_the_dot_score_is_a_product_of_vectors() -> None:
    h_BTH, memory_BSH = random(2, 3, 4), random(2, 5, 4, seed=2)
    by_hand = [
        [[sum(a * b for a, b in zip(h, m, strict=True)) for m in memory] for h in asking]
        for asking, memory in zip(h_BTH.tolist(), memory_BSH.tolist(), strict=True)
    ]
    assert_equals(SCORE.build("dot", d_hidden=4)(h_BTH, memory_BSH), by_hand)


def test_reversing_turns_each_sequence_within_its_length() -> None:
    rows = torch.tensor([[1, 2, 3, 4], [5, 6, 0, 9]])
    turned = reverse(rows, torch.tensor([4, 2]))
    assert turned.tolist() == [[4, 3, 2, 1], [6, 5, 0, 9]]
    assert reverse(rows, None).tolist() == [[4, 3, 2, 1], [9, 0, 6, 5]]
    vectors = torch.stack((rows, rows * 10), dim=-1)
    assert reverse(vectors, torch.tensor([4, 2]))[1].tolist() == [[6, 60], [5, 50], [0, 0], [9, 90]]


def test_a_recurrent_model_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a task with a source"):
        build({"name": "recurrent"}, None, 7, seed=0)
