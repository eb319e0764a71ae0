"""What words with several pronunciations have more of errors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from ablations.measure.quality import Ambiguity
from ablations.store.record import Reading
from ablations.tasks.scoring import METRICS, score
from ablations.tasks.task import Task

CPU = torch.device("cpu")


class Told(Task):
    """Answers are given with their references."""

    metrics = METRICS

    def __init__(self, *pairs: tuple[list[int], list[list[int]]]) -> None:
        self.pairs = pairs

    def scores(self, model: Any, split: str, device: Any, decode: Any = None) -> Any:
        assert split == "test"
        outputs, references = zip(*self.pairs, strict=True)
        return score(outputs, references), []


def read(task: Task) -> Reading:
    (reading,) = Ambiguity().take(nn.Identity(), task, CPU, 7).readings
    assert reading.at == {"step": 7}
    return reading


def test_it_is_the_rate_of_words_with_several_less_that_of_words_with_one() -> None:
    task = Told(([3, 4], [[3, 5]]), ([3, 3, 3], [[4, 3, 3, 4], [3, 3, 4]]))
    assert read(task).value == pytest.approx(1 / 3 - 1 / 2)


def test_without_words_of_one_kind_it_says_so() -> None:
    reading = read(Told(([3, 4], [[3, 5]])))
    assert (reading.value, reading.reason) == (None, "no words with several pronunciations")


def test_a_task_without_pronunciations_is_refused_in_a_line() -> None:
    class Other(Told):
        metrics = {}  # noqa: RUF012

    reading = read(Other())
    assert reading.value is None
    assert "choose the task g2p" in str(reading.reason)
