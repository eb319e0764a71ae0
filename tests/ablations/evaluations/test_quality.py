"""What ambiguous words have more of errors, and the loss by the length of the source."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_models import Given
from small_task import Backwards, small_model
from torch import Tensor, nn

from ablations.evaluations import quality
from ablations.evaluations.maps import single
from ablations.evaluations.quality import (
    BINS,
    ENDS,
    FEWEST,
    Ambiguity,
    Calibration,
    Lengths,
    reliability,
)
from ablations.store.record import Measurement
from ablations.tasks.scoring import METRICS, score
from ablations.tasks.task import Task
from model.batch import IGNORE, PAD, Batch
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
    assert measurement.coordinates == {"step": 7}
    assert measurement.value == pytest.approx(1 / 3 - 1 / 2)


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
    assert {(r.split, r.coordinates["step"]) for r in measurements} == {("test", 17)}
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


few = settings(max_examples=40)


class Known(nn.Module):
    """Answers with the logits that it was given; inputs and sources are row numbers."""

    def __init__(self, logits_RV: Tensor) -> None:
        super().__init__()
        self.logits_RV = nn.Parameter(logits_RV)
        self.dropout = nn.Dropout(0.5)

    def forward(self, batch: Batch) -> Tensor:
        rows = batch.source[:, 0] if batch.inputs is None else batch.inputs
        return self.dropout(self.logits_RV[rows])


def tokens(labels: Tensor, width: int = 5) -> Given:
    """A label for each row, `width` to a sequence and two sequences to a batch."""
    rows = torch.arange(len(labels))
    pieces = zip(labels.split(2 * width), rows.split(2 * width), strict=True)
    return Given(
        *(Batch(label.reshape(-1, width), row.reshape(-1, width)) for label, row in pieces)
    )


def classes(labels: Tensor) -> Given:
    """One label for each sequence."""
    rows = torch.arange(len(labels))[:, None]
    pieces = zip(labels.split(7), rows.split(7), strict=True)
    return Given(*(Batch(label_B, source=row_B1) for label_B, row_B1 in pieces))


def taken_calibration(model: nn.Module, task: Task) -> dict[str, Measurement]:
    return {r.metric: r for r in Calibration().measure(model, task, CPU, 17).measurements}


def by_hand(logits: Sequence[Sequence[float]], labels: Sequence[int]) -> dict[str, Any]:
    """Every label by itself, in plain Python."""
    bins: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for row, label in zip(logits, labels, strict=True):
        if label == IGNORE:
            continue
        powers = [math.exp(x) for x in row]
        sure = max(powers) / sum(powers)
        assume(all(abs(sure - edge / BINS) > 1e-5 for edge in range(BINS)))  # rounding decides
        bins[math.floor(min(sure * BINS, BINS - 0.5))].append((sure, float(row[label] == max(row))))
    every = [pair for pairs in bins for pair in pairs]
    assume(every)
    mean = [sum(column) / len(every) for column in zip(*every, strict=True)]
    error, rows = 0.0, []
    for k, pairs in enumerate(bins):
        sure = right = None
        if pairs:
            sure, right = (sum(column) / len(pairs) for column in zip(*pairs, strict=True))
            error += len(pairs) / len(every) * abs(right - sure)
        rows.append([k / BINS, (k + 1) / BINS, sure, right, len(pairs)])
    return {
        "calibration_error": error,
        "overconfidence": mean[0] - mean[1],
        "confidence": mean[0],
        "label_accuracy": mean[1],
        "reliability": rows,
    }


@pytest.mark.parametrize("head", [tokens, classes])
@few
@given(
    seed=st.integers(0, 999),
    vocabulary=st.integers(2, 9),
    spread=st.sampled_from([0.1, 1.0, 4.0]),
    ignored=st.sampled_from([0.0, 0.3, 0.9]),
)
def test_readings_are_those_of_a_slow_computation(
    head: Any, seed: int, vocabulary: int, spread: float, ignored: float
) -> None:
    draw = torch.Generator().manual_seed(seed)
    logits = torch.randn(30, vocabulary, generator=draw) * spread
    labels = torch.randint(vocabulary, (30,), generator=draw)
    labels[torch.rand(30, generator=draw) < ignored] = IGNORE
    expected = by_hand(logits.tolist(), labels.tolist())
    found = taken_calibration(Known(logits), head(labels))
    table, rows = found["reliability"].values, expected.pop("reliability")
    for ours, theirs in zip(table, rows, strict=True):
        assert ours == [None if x is None else pytest.approx(x, abs=1e-6) for x in theirs]
    assert {name: found[name].value for name in expected} == pytest.approx(expected, abs=1e-6)


def test_a_bin_holds_its_upper_edge_and_not_its_lower_one() -> None:
    edges = torch.arange(1, BINS + 1, dtype=torch.float64) / BINS
    above = torch.nextafter(edges[:-1], edges[1:])
    for confidence, counts in ((edges, [1] * BINS), (above, [0] + [1] * (BINS - 1))):
        rows = reliability(confidence, torch.zeros_like(confidence))
        assert [row[4] for row in rows] == counts
    assert rows[0][:2] == [0.0, 1 / BINS]
    assert rows[-1][:2] == [(BINS - 1) / BINS, 1.0]


def test_a_model_that_answers_with_no_number_is_null_with_a_reason() -> None:
    found = taken_calibration(Known(torch.full((3, 2), math.nan)), classes(torch.tensor([0, 1, 0])))
    assert all(measurement.value is None for measurement in found.values())
    assert all("not finite" in (measurement.reason or "") for measurement in found.values())
