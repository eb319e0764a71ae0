"""Associative recall: the answer is the value beside the key, as far back as was asked for."""

from __future__ import annotations

import math
from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ablations.tasks import TASK
from ablations.tasks.task import Budget, Score
from model.batch import IGNORE, Batch


def make(**options: Any) -> Any:
    return TASK.build({"name": "recall", **options})


def read(task: Any, batch: Batch) -> list[tuple[list[str], str]]:
    """Each question as its symbols, and the symbol that is to be said."""
    assert batch.inputs is not None
    return [
        (task.tell(row).split(), task.tell([label]))
        for row, label in zip(batch.inputs.tolist(), batch.labels[:, -1].tolist(), strict=True)
    ]


def scan(symbols: list[str]) -> str:
    """What stands after the key's =, looked for from left to right."""
    key = symbols[-1]
    text = " ".join(symbols[:-1]).replace(" =", "=")
    (found,) = [pair for pair in text.split() if pair.split("=")[0] == key]
    return "=" + found.split("=")[1]


@st.composite
def options(draw: Any) -> dict[str, Any]:
    keys = draw(st.integers(4, 20))
    return {
        "keys": keys,
        "values": draw(st.integers(4, 12)),
        "pairs": draw(st.integers(3, keys)),
        "distance": draw(st.integers(0, 30)),
        "tokens": draw(st.sampled_from(["one", "two"])),
    }


@settings(max_examples=40)
@given(options(), st.integers(0, 5))
def test_the_value_to_be_said_is_the_one_beside_the_key(chosen: Any, seed: int) -> None:
    task = make(**chosen)
    (batch,) = next(task.steps(seed, Budget(800)))
    assert torch.equal(batch.labels[:, :-1], torch.full_like(batch.labels[:, :-1], IGNORE))
    for symbols, said in read(task, batch):
        assert said == scan(symbols)
        assert len(symbols) == task.longest
        width = 1 if chosen["tokens"] == "one" else 2
        shown = symbols[: width * chosen["pairs"]]
        filler = symbols[width * chosen["pairs"] : -1]
        assert len(filler) == chosen["distance"]
        assert all(symbol.startswith(".") for symbol in filler)
        keys = Counter(pair.split("=")[0] for pair in shown[::width])
        assert set(keys.values()) == {1}
        assert all(int(key) < chosen["keys"] for key in keys)


def test_every_place_key_and_value_is_asked_for_as_often() -> None:
    task = make(keys=5, values=4, pairs=3, distance=2)
    questions = [
        question
        for (batch,) in islice(task.steps(0, Budget(600)), 60)
        for question in read(task, batch)
    ]
    said = Counter(value for _, value in questions)
    asked = Counter(symbols[-1] for symbols, _ in questions)
    place = Counter(
        [pair.split("=")[0] for pair in symbols[:3]].index(symbols[-1]) for symbols, _ in questions
    )
    for counts, kinds in ((said, 4), (asked, 5), (place, 3)):
        assert len(counts) == kinds
        share = len(questions) / kinds
        assert all(abs(count - share) < 4.5 * math.sqrt(share) for count in counts.values())


class Scanner(nn.Module):
    """Says what it finds, but only so many symbols back."""

    def __init__(self, task: Any, reach: int) -> None:
        super().__init__()
        self.task, self.reach = task, reach

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        said = [
            self.task.vocabulary.encode([scan(symbols) if len(symbols) <= self.reach else "=0"])
            for symbols, _ in read(self.task, batch)
        ]
        logits = nn.functional.one_hot(torch.tensor(said), self.task.target_size).float()
        return logits.expand(-1, batch.inputs.shape[1], -1)


@pytest.mark.parametrize("tokens", ["one", "two"])
def test_accuracy_is_taken_at_each_distance(tokens: str) -> None:
    task = make(distance=6, test_distances=[6, 0, 20], tokens=tokens, examples=200)
    scores, _ = task.scores(Scanner(task, task.longest), "test", "cpu")
    assert scores[:3] == [
        Score("accuracy", 1.0),
        Score("accuracy", 1.0, {"distance": 6}),
        Score("accuracy", 1.0, {"distance": 0}),
    ]
    assert scores[3].at == {"distance": 20}
    assert scores[3].value == pytest.approx(1 / 8, abs=0.1)  # always the same value


def test_the_trivial_answer_is_one_value_of_all() -> None:
    task = make(values=5)
    assert task.trivial("valid") == {"loss": pytest.approx(math.log(5)), "accuracy": 1 / 5}
