"""Calibration against a slow computation, and on models whose calibration is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_models import Given
from torch import Tensor, nn

from ablations.evaluations.calibration import BINS, reliability
from ablations.measurement import discover
from ablations.store.record import Measurement
from ablations.tasks.task import Task
from model.batch import IGNORE, Batch

CPU = torch.device("cpu")
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


def taken(model: nn.Module, task: Task) -> dict[str, Measurement]:
    taken = discover().build("calibration").measure(model, task, CPU, 17)
    measurements, examples = taken.measurements, taken.examples
    assert not examples
    return {measurement.metric: measurement for measurement in measurements}


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
    found = taken(Known(logits), head(labels))
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
    found = taken(Known(torch.full((3, 2), math.nan)), classes(torch.tensor([0, 1, 0])))
    assert all(measurement.value is None for measurement in found.values())
    assert all("not finite" in (measurement.reason or "") for measurement in found.values())
