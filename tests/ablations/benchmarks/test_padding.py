"""Padding: further than needed it costs time, told of it a model answers the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small_plans import planned

from ablations.benchmarks.padding import LONGEST, OWN, Padding, padded
from ablations.plan.wanted import Want
from ablations.probes.dependence import PaddingSeen
from ablations.tasks.cache import load_task
from model.batch import IGNORE, PAD, Batch
from model.build import build
from model.layers import evaluating

CPU = torch.device("cpu")


@pytest.fixture
def want(ask: Any) -> Want:
    return next(iter(planned(ask()).wanted.values()))


def test_a_batch_is_padded_and_its_lengths_tell_of_it() -> None:
    tokens = torch.tensor([[1, 5, 6], [1, 5, 0]])
    batch = Batch(
        torch.tensor([[5, 6, 2], [5, 2, IGNORE]]), inputs=tokens, lengths=torch.tensor([3, 2]),
        source=torch.tensor([[7, 8], [9, 9]]),
    )  # fmt: skip
    wider = padded(batch, 5, 4)
    assert wider.inputs.tolist() == [[1, 5, 6, PAD, PAD], [1, 5, 0, PAD, PAD]]
    assert wider.labels.tolist() == [[5, 6, 2, IGNORE, IGNORE], [5, 2, IGNORE, IGNORE, IGNORE]]
    assert wider.source.tolist() == [[7, 8, PAD, PAD], [9, 9, PAD, PAD]]
    assert (wider.lengths.tolist(), wider.source_lengths.tolist()) == ([3, 2], [2, 2])


def test_told_the_lengths_a_model_does_not_see_the_padding_and_untold_it_does(want: Want) -> None:
    task = load_task(want.frozen["task"])
    told, untold = PaddingSeen().measure(want.config, task, CPU).measurements
    assert (told.coordinates, untold.coordinates) == ({"lengths": "told"}, {"lengths": "untold"})
    assert told.value < 1e-12
    assert untold.value > 1e-3


def test_what_is_timed_is_a_pass_over_batches_that_differ_in_their_padding_alone(
    want: Want, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = load_task(want.frozen["task"])
    seen: list[Batch] = []

    class Remembers(torch.nn.Module):
        def forward(self, batch: Batch) -> None:
            seen.append(batch)

    monkeypatch.setattr("ablations.benchmarks.padding.build", lambda *_: Remembers())
    for to in (OWN, LONGEST):
        Padding().prepare(want.config, task, CPU, {"seed_batches": 2, "to": to})()
    own, wide = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    real = build(want.config["model"], task.source_size, task.target_size, 0).double()
    for one, two in zip(own, wide, strict=True):
        assert two.source.shape[1] == task.longest >= one.source.shape[1]
        counts = one.labels != IGNORE
        with evaluating(real), torch.inference_mode():
            answers = real(two)[:, : one.labels.shape[1]]
            torch.testing.assert_close(answers[counts], real(one)[counts])
