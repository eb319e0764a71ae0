"""Nested lists: every value by a second evaluator, every expression in one split only."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ablations.tasks import TASK
from ablations.tasks.listops import CLASSES, ListOps
from ablations.tasks.task import Budget, Score
from model.batch import PAD, Batch


def make(**options: Any) -> Any:
    return TASK.build({"name": "listops", "examples": 300, "test_examples": 60, **options})


def evaluate(text: str) -> int:
    """Inner lists first: the first ] and the last [ before it are replaced by their value."""
    symbols = text.split()
    while len(symbols) > 1:
        end = symbols.index("]")
        start = max(place for place in range(end) if symbols[place].startswith("["))
        members = np.array([int(symbol) for symbol in symbols[start + 1 : end]])
        value = {
            "[MIN": members.min,
            "[MAX": members.max,
            "[MED": lambda members=members: np.floor(np.median(members)),
            "[SM": lambda members=members: members.sum() % 10,
        }[symbols[start]]()
        symbols[start : end + 1] = [str(int(value))]
    return int(symbols[0])


def depth(symbols: list[str]) -> int:
    """Levels, the digits' own included."""
    level = deepest = 1
    for symbol in symbols:
        level += symbol.startswith("[") - (symbol == "]")
        deepest = max(deepest, level)
    return deepest


def most_members(symbols: list[str]) -> int:
    counts, most = [0], 0
    for symbol in symbols:
        if symbol == "]":
            most = max(most, counts.pop())
        else:
            counts[-1] += 1
            counts += [0] if symbol.startswith("[") else []
    return most


def sources(batch: Batch) -> list[str]:
    return [
        " ".join(ListOps.vocabulary.decode(token for token in row if token != PAD))
        for row in batch.source.tolist()
    ]


@settings(max_examples=30)
@given(st.integers(3, 7), st.integers(3, 8), st.integers(4, 12), st.integers(8, 60))
def test_trees_keep_to_their_options_and_are_worth_what_they_say(
    max_depth: int, max_args: int, shortest: int, more: int
) -> None:
    task = make(
        max_depth=max_depth,
        max_args=max_args,
        min_length=shortest,
        max_length=shortest + more,
        examples=40,
        test_examples=10,
    )
    for split in ("train", "valid", "test"):
        for symbols, value in task.trees(split):
            assert value == evaluate(" ".join(symbols))
            assert shortest <= len(symbols) <= shortest + more
            assert depth(symbols) <= max_depth
            assert 2 <= most_members(symbols) <= max_args


def test_no_expression_comes_twice_in_any_split() -> None:
    task = make(examples=5000, test_examples=1000)
    told = Counter(
        " ".join(s) for split in ("train", "valid", "test") for s, _ in task.trees(split)
    )
    assert len(told) == 7000
    assert set(told.values()) == {1}


def test_a_batch_holds_whole_expressions_and_their_classes() -> None:
    task = make()
    seen = Counter[str]()
    for step in islice(task.steps(0, Budget(500, 2)), 20):
        for batch in step:
            assert batch.inputs is None
            assert batch.labels.shape == (len(batch.source),)
            assert [evaluate(text) for text in sources(batch)] == batch.labels.tolist()
            real = (batch.source != PAD).sum(dim=1)
            if batch.source_lengths is None:
                assert int(real.min()) == batch.source.shape[1]
            else:
                assert torch.equal(batch.source_lengths, real)
            seen.update(sources(batch))
    assert set(seen) == {" ".join(symbols) for symbols, _ in task.trees("train")}


class Reader(nn.Module):
    """Evaluates what it reads; of long expressions it says 0."""

    def forward(self, batch: Batch) -> Tensor:
        said = [evaluate(text) if len(text) < 24 else 0 for text in sources(batch)]
        return nn.functional.one_hot(torch.tensor(said), CLASSES).float()


def test_accuracy_is_the_share_of_right_classes() -> None:
    task = make(test_examples=200)
    trees = [(" ".join(symbols), value) for symbols, value in task.trees("test")]
    right = sum(len(text) < 24 or value == 0 for text, value in trees)
    (score,), examples = task.scores(Reader(), "test", "cpu")
    assert score == Score("accuracy", right / 200)
    assert 0.1 < right / 200 < 0.9
    assert all(e["target"] == str(evaluate(e["input"])) for e in examples)
    assert Counter(e["output"] == e["target"] for e in examples) == {True: 6, False: 6}


def test_the_trivial_answer_is_the_likeliest_class_of_train() -> None:
    task = make(test_examples=100)
    taught = Counter(value for _, value in task.trees("train"))
    asked = [value for _, value in task.trees("test")]
    (likeliest, most), (_, next_most) = taught.most_common(2)
    assert most > next_most
    loss = -sum(math.log((taught[value] + 1) / 310) for value in asked) / 100
    assert task.trivial("test") == pytest.approx(
        {"loss": loss, "accuracy": asked.count(likeliest) / 100}
    )
