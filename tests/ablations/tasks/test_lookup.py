"""What is looked up: the values beside what is asked for, as far back as was asked for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
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


def make(name: str, **options: Any) -> Any:
    return TASK.build({"name": name, **options})


def read(task: Any, batch: Batch) -> list[tuple[list[str], str]]:
    """Each question as its symbols, and the symbol that is to be said."""
    return [
        (task.tell(row).split(), task.tell([label]))
        for row, label in zip(batch.inputs.tolist(), batch.labels[:, -1].tolist(), strict=True)
    ]


class Says(nn.Module):
    """Says to each question what a function of its symbols says."""

    def __init__(self, task: Any, answer: Callable[[list[str]], str]) -> None:
        super().__init__()
        self.task, self.answer = task, answer

    def forward(self, batch: Batch) -> Tensor:
        said = self.task.vocabulary.encode(
            self.answer(symbols) for symbols, _ in read(self.task, batch)
        )
        logits = nn.functional.one_hot(torch.tensor(said), self.task.target_size).float()
        return logits[:, None].expand(-1, batch.inputs.shape[1], -1)


def assert_as_often(counts: Counter[Any], kinds: int) -> None:
    assert len(counts) == kinds
    share = counts.total() / kinds
    assert all(abs(count - share) < 4.5 * math.sqrt(share) for count in counts.values())


@pytest.mark.parametrize(("name", "answers"), [("recall", 5), ("pair", 25)])
def test_the_trivial_answer_is_one_of_all(name: str, answers: int) -> None:
    expected = {"loss": pytest.approx(math.log(answers)), "accuracy": 1 / answers}
    assert make(name, values=5).trivial("valid") == expected


# Recall: the value beside the key.


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
    task = make("recall", **chosen)
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
    task = make("recall", keys=5, values=4, pairs=3, distance=2)
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
        assert_as_often(counts, kinds)


@pytest.mark.parametrize("tokens", ["one", "two"])
def test_accuracy_is_taken_at_each_distance(tokens: str) -> None:
    task = make("recall", distance=6, test_distances=[6, 0, 20], tokens=tokens, examples=200)
    scores, _ = task.scores(
        Says(task, lambda s: scan(s) if len(s) <= task.longest else "=0"), "test", "cpu"
    )
    assert scores[:3] == [
        Score("accuracy", 1.0),
        Score("accuracy", 1.0, {"distance": 6}),
        Score("accuracy", 1.0, {"distance": 0}),
    ]
    assert scores[3].coordinates == {"distance": 20}
    assert scores[3].value == pytest.approx(1 / 8, abs=0.1)  # always the same value


# Pairs: two lookups from one position, in the order in which the slots were named.


def look_up(symbols: list[str]) -> str:
    held = dict(symbol.split("=") for symbol in symbols[:-1])
    return "=" + ",".join(held[slot] for slot in symbols[-1].removesuffix("?").split(","))


@settings(max_examples=40)
@given(st.integers(4, 8), st.integers(3, 8), st.integers(1, 3), st.integers(0, 5))
def test_all_values_are_to_be_said_in_the_order_asked(
    slots: int, values: int, asked: int, seed: int
) -> None:
    task = make("pair", slots=slots, values=values, asked=asked)
    (batch,) = next(task.steps(seed, Budget(600)))
    assert torch.equal(batch.labels[:, :-1], torch.full_like(batch.labels[:, :-1], IGNORE))
    for symbols, said in read(task, batch):
        assert said == look_up(symbols)
        *shown, named = symbols
        assert sorted(int(symbol.split("=")[0]) for symbol in shown) == list(range(slots))
        assert all(int(symbol.split("=")[1]) < values for symbol in shown)
        assert len(set(named.removesuffix("?").split(","))) == asked
        assert len(symbols) == task.longest


def test_every_question_and_every_order_is_as_likely() -> None:
    task = make("pair", slots=4, values=3)
    questions = [
        symbols
        for (batch,) in islice(task.steps(0, Budget(500)), 100)
        for symbols, _ in read(task, batch)
    ]
    named = Counter(symbols[-1] for symbols in questions)
    orders = Counter(tuple(symbol[0] for symbol in symbols[:-1]) for symbols in questions)
    assert_as_often(named, 4 * 3)
    assert_as_often(orders, 24)


def unordered(symbols: list[str]) -> str:
    """Both values and not which is whose: what an even average of two slots tells."""
    return "=" + ",".join(sorted(look_up(symbols).removeprefix("=").split(",")))


def test_who_cannot_tell_the_order_is_right_in_half_and_where_both_are_equal() -> None:
    task = make("pair", slots=6, values=4, examples=2000)
    (score,), examples = task.scores(Says(task, unordered), "test", "cpu")
    assert score == Score("accuracy", score.value)
    assert score.value == pytest.approx(1 / 4 + 3 / 4 / 2, abs=0.04)
    assert Counter(e["output"] == e["target"] for e in examples) == {True: 6, False: 6}
    wrong = next(e for e in examples if e["output"] != e["target"])
    assert sorted(wrong["output"]) == sorted(wrong["target"])
