"""Strings to copy, turn round and sort: lengths that are chosen, answers by their definition."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Says

from ablations.tasks import TASK
from ablations.tasks.task import Budget, Score
from model.batch import BOS, EOS

NAMES = ("copy", "reverse", "sort")


def make(name: str, **options: Any) -> Any:
    return TASK.build({"name": name, **options})


def answer(name: str, string: list[int]) -> list[int]:
    """The answer by selection: each time the symbol whose turn it is."""
    left, told = list(string), []
    while left:
        turn = {"copy": 0, "reverse": -1, "sort": left.index(min(left))}[name]
        told.append(left.pop(turn))
    return told


@settings(max_examples=40)
@given(
    st.sampled_from(NAMES),
    st.integers(10, 40),
    st.integers(3, 9),
    st.integers(0, 9),
    st.integers(0, 5),
)
def test_a_batch_asks_for_the_answer_of_its_task(
    name: str, symbols: int, shortest: int, more: int, seed: int
) -> None:
    task = make(name, symbols=symbols, min_length=shortest, length=shortest + more)
    for batch in next(task.steps(seed, Budget(500, 2))):
        for source, inputs, labels in zip(
            batch.source.tolist(), batch.inputs.tolist(), batch.labels.tolist(), strict=True
        ):
            *string, end = source
            assert shortest <= len(string) <= shortest + more
            assert all(EOS < symbol < 3 + symbols for symbol in string)
            assert end == EOS
            assert labels == [*answer(name, string), EOS]
            assert inputs == [BOS, *labels[:-1]]


def test_each_length_gets_as_many_tokens_and_parts_go_from_short_to_long() -> None:
    task = make("copy", min_length=5, length=10)
    drawn = [
        [batch.labels.shape[1] - 1 for batch in step]
        for step in islice(task.steps(0, Budget(400, 4)), 300)
    ]
    assert all(step == sorted(step) for step in drawn)
    counts = Counter(length for step in drawn for length in step)
    assert sorted(counts) == [5, 6, 7, 8, 9, 10]
    assert min(counts.values()) > 150  # of 200
    assert max(counts.values()) < 250


def test_one_wrong_symbol_spoils_a_string_and_costs_one_edit() -> None:
    task = make("copy", min_length=5, length=5, examples=20)
    oracle = Says(task.target_size, lambda string: [min(string[0], 10), *string[1:]])
    wrong = sum(
        row[0] > 10 for batch in task.evaluation_batches("test") for row in batch.source.tolist()
    )
    scores, examples = task.scores(oracle, "test", "cpu")
    assert 0 < wrong < 20
    assert scores[:2] == [
        Score("sequence_accuracy", pytest.approx(1 - wrong / 20)),
        Score("token_error", pytest.approx(wrong / 100)),
    ]
    assert len(examples) == 12


@pytest.mark.parametrize("name", NAMES)
def test_the_trivial_loss_is_that_of_labels_counted_in_training(name: str) -> None:
    task = make(name, symbols=10, min_length=3, length=6)
    counts = Counter(
        label
        for step in islice(task.steps(0, Budget(1120, 4)), 400)
        for batch in step
        for label in batch.labels.flatten().tolist()
    )
    total = sum(counts.values())
    asked = [
        label for b in task.evaluation_batches("valid") for label in b.labels.flatten().tolist()
    ]
    loss = -sum(math.log(counts[label] / total) for label in asked) / len(asked)
    assert task.trivial("valid")["loss"] == pytest.approx(loss, abs=0.01)
