"""Two lookups from one position: both values, in the order in which their slots were named."""

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
    return TASK.build({"name": "pair", **options})


def read(task: Any, batch: Batch) -> list[tuple[list[str], str]]:
    """Each question as its symbols, and the symbol that is to be said."""
    assert batch.inputs is not None
    return [
        (task.tell(row).split(), task.tell([label]))
        for row, label in zip(batch.inputs.tolist(), batch.labels[:, -1].tolist(), strict=True)
    ]


def look_up(symbols: list[str]) -> str:
    held = dict(symbol.split("=") for symbol in symbols[:-1])
    return "=" + ",".join(held[slot] for slot in symbols[-1].removesuffix("?").split(","))


@settings(max_examples=40)
@given(st.integers(4, 8), st.integers(3, 8), st.integers(1, 3), st.integers(0, 5))
def test_all_values_are_to_be_said_in_the_order_asked(
    slots: int, values: int, asked: int, seed: int
) -> None:
    task = make(slots=slots, values=values, asked=asked)
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
    task = make(slots=4, values=3)
    questions = [
        symbols
        for (batch,) in islice(task.steps(0, Budget(500)), 100)
        for symbols, _ in read(task, batch)
    ]
    named = Counter(symbols[-1] for symbols in questions)
    orders = Counter(tuple(symbol[0] for symbol in symbols[:-1]) for symbols in questions)
    for counts, kinds in ((named, 4 * 3), (orders, 24)):
        assert len(counts) == kinds
        share = len(questions) / kinds
        assert all(abs(count - share) < 4.5 * math.sqrt(share) for count in counts.values())


class Unordered(nn.Module):
    """Finds both values and not which is whose: what an even average of two slots tells."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.task = task

    def forward(self, batch: Batch) -> Tensor:
        assert batch.inputs is not None
        found = [
            look_up(symbols).removeprefix("=").split(",") for symbols, _ in read(self.task, batch)
        ]
        said = self.task.vocabulary.encode("=" + ",".join(sorted(both)) for both in found)
        logits = nn.functional.one_hot(torch.tensor(said), self.task.target_size).float()
        return logits[:, None].expand(-1, batch.inputs.shape[1], -1)


def test_who_cannot_tell_the_order_is_right_in_half_and_where_both_are_equal() -> None:
    task = make(slots=6, values=4, examples=2000)
    (score,), examples = task.scores(Unordered(task), "test", "cpu")
    assert score.value is not None
    assert score == Score("accuracy", score.value)
    assert score.value == pytest.approx(1 / 4 + 3 / 4 / 2, abs=0.04)
    assert Counter(e["output"] == e["target"] for e in examples) == {True: 6, False: 6}
    wrong = next(e for e in examples if e["output"] != e["target"])
    assert sorted(wrong["output"]) == sorted(wrong["target"])


def test_the_trivial_answer_is_one_pair_of_values() -> None:
    task = make(values=5)
    assert task.trivial("valid") == {"loss": pytest.approx(math.log(25)), "accuracy": 1 / 25}
