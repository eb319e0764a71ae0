"""Errors after the true past and after one's own, of models that are known to make them."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.measure.forcing import Forcing
from ablations.tasks.batching import Padded
from ablations.tasks.task import Task
from model.batch import BOS, EOS, Batch
from model.build import build
from model.generate import Decoding, Question, greedy

CPU = torch.device("cpu")
SIZE = 10


class Targets(Task):
    """Any source; these are to be written."""

    kind: ClassVar[str] = "encoder_decoder"
    longest = 8

    def __init__(self, *targets: list[int]) -> None:
        self.batches = [
            Padded([[3, EOS]] * len(targets), [[BOS, *t, EOS] for t in targets]).batches
        ]

    def evaluation_batches(self, split: str) -> list[Batch]:
        assert split == "test"
        return self.batches[0]


class Next(nn.Module):
    """Says of each token what follows it, whatever stood before."""

    def __init__(self, follows: dict[int, int]) -> None:
        super().__init__()
        table = [follows.get(token, EOS) for token in range(SIZE)]
        self.logits_VV = nn.Parameter(F.one_hot(torch.tensor(table), SIZE).float())
        self.dropout = nn.Dropout(0.5)

    def forward(self, batch: Batch) -> Tensor:
        return self.dropout(self.logits_VV[batch.inputs])

    def begin(self, sequences: int, capacity: int, source: Any, lengths: Any) -> Decoding:
        return Decoding(0, ())

    def step(self, tokens_BT: Tensor, decoding: Decoding) -> tuple[Tensor, Decoding]:
        return self.dropout(self.logits_VV[tokens_BT]), decoding


UP = {BOS: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: EOS}


def taken(model: nn.Module, task: Task) -> dict[str, Any]:
    readings = Forcing().take(model, task, CPU, 17).readings
    assert all((r.split, r.at) == ("test", {"step": 17}) for r in readings)
    assert {r.metric: r.unit for r in readings} == {
        name: each.unit for name, each in Forcing.quantities.items()
    }
    return {r.metric: r for r in readings}


def values(model: nn.Module, task: Task) -> tuple[float, ...]:
    return tuple(reading.value for reading in taken(model, task).values())


@pytest.mark.parametrize(
    ("target", "wrong", "edits"),
    [
        # 4 is followed by 5 and not by 6, and 9 by the end: it goes on as if nothing were.
        ([3, 4, 6, 7, 8, 9], 1, 1),  # writes 3 4 5 6 7 8 9
        # The true past puts it back on the way; its own does not.
        ([5, 6, 7, 8, 9], 1, 2),
        ([3, 3, 3, 3], 4, 6),
        ([9], 1, 6),
    ],
)
def test_errors_are_those_counted_by_hand(target: list[int], wrong: int, edits: int) -> None:
    expected = wrong / (len(target) + 1), edits / len(target)
    found = values(Next(UP), Targets(target))
    assert found == pytest.approx((*expected, expected[1] - expected[0]))


def slow_edits(a: list[int], b: list[int]) -> int:
    """By recursion on first tokens."""
    if not a or not b:
        return len(a) + len(b)
    if a[0] == b[0]:
        return slow_edits(a[1:], b[1:])
    return 1 + min(slow_edits(a[1:], b), slow_edits(a, b[1:]), slow_edits(a[1:], b[1:]))


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_model_is_asked_one_example_at_a_time_with_the_same_errors(recurrent: bool) -> None:
    task = Backwards()
    model: Any = small_model(seed=2)
    if recurrent:
        model = build({"name": "recurrent", "d_model": 8}, 8, 8, seed=2)
    wrong = labels = edits = tokens = 0
    pairs = task.pairs["test"]
    for row in range(len(pairs)):
        one = pairs.batch(torch.tensor([row]))
        true = one.labels[0].tolist()
        said = model.eval()(one)[0].argmax(-1).tolist()
        wrong += sum(a != b for a, b in zip(said, true, strict=True))
        labels += len(true)
        (answer,) = greedy(model, Question(one.source), task.longest - 1)
        edits += slow_edits(answer.tokens, true[:-1])
        tokens += len(true) - 1
    expected = wrong / labels, edits / tokens
    assert values(model, task) == pytest.approx((*expected, expected[1] - expected[0]))


def test_other_tasks_are_told_what_to_choose() -> None:
    class Continued(Targets):
        kind: ClassVar[str] = "decoder"

    class ReadOff(Targets):
        writes = False

    for task in (Continued([3]), ReadOff([3])):
        for reading in taken(Next(UP), task).values():
            assert reading.value is None
            assert "choose a task of kind encoder_decoder" in reading.reason
