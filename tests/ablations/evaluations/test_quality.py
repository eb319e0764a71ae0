"""What ambiguous words have more of errors, and the loss by the length of the source."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pytest
import torch
from small_models import Given
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.evaluations import quality
from ablations.evaluations.maps import single
from ablations.evaluations.quality import ENDS, FEWEST, Ambiguity, Lengths
from ablations.store.record import Measurement
from ablations.tasks.scoring import METRICS, score
from ablations.tasks.task import Task
from model.batch import PAD, Batch
from model.layers import evaluating

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


def test_it_is_the_rate_of_words_with_several_less_that_of_words_with_one() -> None:
    task = Told(([3, 4], [[3, 5]]), ([3, 3, 3], [[4, 3, 3, 4], [3, 3, 4]]))
    (measurement,) = Ambiguity().measure(nn.Identity(), task, CPU, 7).measurements
    assert (measurement.coordinates, measurement.value) == (
        {"step": 7},
        pytest.approx(1 / 3 - 1 / 2),
    )


class Wearies(nn.Module):
    """Is right with probability 2^(−tokens of the source / 8), among many words or classes."""

    def forward(self, batch: Batch) -> Tensor:
        tokens = (batch.source != PAD).sum(1)
        chance = 2 ** (-tokens.double() / 8)
        labels = batch.labels.clamp(min=0)
        right = nn.functional.one_hot(labels, 50)
        chance = chance.view(-1, *[1] * (right.dim() - 1))
        return torch.where(right == 1, chance, (1 - chance) / 49).log()


def taken(model: nn.Module, task: Any) -> list[Measurement]:
    measurements = Lengths().measure(model, task, CPU, 17).measurements
    for measurement in measurements:
        assert (measurement.metric, measurement.unit) == ("loss_at_source", "nats/token")
        assert (measurement.split, measurement.coordinates["step"]) == ("test", 17)
    return measurements


def by_end(model: nn.Module, task: Any) -> dict[int, float]:
    return {int(r.coordinates["source_length"]): r.value or 0.0 for r in taken(model, task)}


def sources(length: int, number: int, width: int, target: int | None = 3) -> Batch:
    """So many sources of a length, padded up to a width; a class each where there is no target."""
    source = torch.full((number, width), PAD)
    source[:, :length] = 4
    told = None if length == width else torch.full((number,), length)
    if target is None:
        return Batch(torch.arange(number) % 7, source=source, source_lengths=told)
    labels = torch.arange(number * target).view(number, target) % 7
    return Batch(labels, inputs=labels, source=source, source_lengths=told)


@pytest.mark.parametrize("target", [3, None], ids=["tokens", "classes"])
def test_a_bucket_holds_its_upper_end_and_not_its_lower_one(target: int | None) -> None:
    sizes = (1, 4, 5, 8, 9, 24, 25, 64)
    task = Given(*(sources(size, FEWEST, 70, target) for size in sizes))
    found = by_end(Wearies(), task)
    nats = math.log(2) / 8
    assert found == pytest.approx(
        # of 1 and 4 tokens, as many of each; of 5 and 8
        {4: 2.5 * nats, 8: 6.5 * nats, 12: 9 * nats, 24: 24 * nats, 32: 25 * nats, 64: 64 * nats}
    )


def test_few_examples_and_sources_that_are_too_long_are_left_out() -> None:
    many, few = sources(3, FEWEST, 5), sources(10, FEWEST - 1, 12)
    long = sources(ENDS[-1] + 1, 50, 80)
    assert list(by_end(Wearies(), Given(many, few, long))) == [4]
    assert list(by_end(Wearies(), Given(many, few, few, long))) == [4, 12], "from two batches"
    (nothing,) = taken(Wearies(), Given(few, long))
    assert nothing.value is None
    assert "no bucket" in (nothing.reason or "")


def test_a_real_model_has_the_loss_of_each_example_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "FEWEST", 1)
    model, task = small_model(dropout=0.3), Backwards()
    nats, labels = defaultdict(float), defaultdict(int)
    with evaluating(model), torch.inference_mode():
        for batch in task.evaluation_batches("test"):
            for row in range(len(batch.labels)):
                one = single(batch, row)
                size, told = one.source.shape[1], one.inputs.shape[1]
                log_p = model(one)[0].double().log_softmax(-1)
                end = min(end for end in ENDS if end >= size)
                nats[end] -= sum(float(log_p[t, one.labels[0, t]]) for t in range(told))
                labels[end] += told
    assert len(nats) == 2
    expected = {end: nats[end] / labels[end] for end in nats}
    assert by_end(model, task) == pytest.approx(expected, rel=1e-5)
