"""Which examples stand for all of a split."""

from __future__ import annotations

from typing import Any

import torch
from small_task import Backwards

from ablations.tasks.batching import some
from model.batch import Batch


def test_every_so_many_th_example_is_read_whatever_the_batches() -> None:
    rows = torch.arange(30)[:, None].expand(30, 4)
    whole = [Batch(rows[a:b], inputs=rows[a:b]) for a, b in ((0, 7), (7, 9), (9, 30))]
    assert sum(batch.tokens for batch in some(whole, 1000)) == 120
    chosen = torch.cat([batch.labels[:, 0] for batch in some(whole, 40)])
    assert chosen.tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]


def test_lengths_and_labels_go_with_their_examples() -> None:
    task = Backwards()
    (first, *_) = batches = task.evaluation_batches("valid")
    every: list[Any] = some(batches, 1)
    assert sum(len(batch.labels) for batch in every) == 1
    assert torch.equal(every[0].labels, first.labels[:1])
    assert every[0].source_lengths is None or len(every[0].source_lengths) == 1
