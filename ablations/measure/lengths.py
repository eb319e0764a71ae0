"""How the loss depends on how long the source is.

B: examples of a batch, N: examples of a split.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ablations.measure import MEASURE, Measure, Quantity, Taken
from ablations.store.record import Reading
from ablations.tasks.task import Task
from model.batch import IGNORE
from model.evaluating import evaluating

ENDS = (4, 8, 12, 16, 24, 32, 48, 64)  # of the buckets, in tokens of the source; longer are left
FEWEST = 20  # examples of a bucket: the loss of fewer says little


@MEASURE.register("lengths")
class Lengths(Measure):
    """Nats per label of the test examples whose source has more tokens than one end and at most as
    many as the next, padding not counted (as Koehn & Knowles 2017 bucket their sentences)."""

    quantities: ClassVar = {
        "loss_at_source": Quantity(
            "nats/token", "lower", "loss by length of the source", matters=0.02
        )
    }

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        if task.source_size is None:
            reason = "lengths sorts examples by their source: choose a task that has one"
            return Taken([_reading(None, {"step": step}, reason)])
        nats_N, labels_N, source_N = by_example(model, task, device, "test")
        bucket_N = torch.bucketize(source_N, torch.tensor(ENDS))
        readings = []
        for index, end in enumerate(ENDS):
            mine_N = bucket_N == index
            if int(mine_N.sum()) >= FEWEST:
                value = float(nats_N[mine_N].sum() / labels_N[mine_N].sum())
                readings.append(_reading(value, {"step": step, "source": end}))
        reason = f"no bucket of lengths up to {ENDS[-1]} has {FEWEST} test examples: ask more"
        return Taken(readings or [_reading(None, {"step": step}, reason)])


def _reading(value: float | None, at: dict[str, float | str], reason: str | None = None) -> Reading:
    return Reading("loss_at_source", "nats/token", value, "test", at, reason=reason)


def by_example(
    model: nn.Module, task: Task, device: torch.device, split: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Of each example the nats of all its labels, how many these are, and its source's tokens."""
    batches = task.evaluation_batches(split)  # which may be kept, so not in inference mode
    nats, labels, sources = [], [], []
    with evaluating(model), torch.inference_mode():
        for batch in batches:
            assert batch.source is not None
            moved = batch.to(device)
            logits = model(moved).flatten(0, -2)
            each = F.cross_entropy(
                logits, moved.labels.flatten(), ignore_index=IGNORE, reduction="none"
            )
            nats.append(each.view(len(batch.labels), -1).sum(1).double().cpu())
            labels.append((batch.labels != IGNORE).view(len(batch.labels), -1).sum(1))
            size, width = batch.source.shape
            whole_B = torch.full((size,), width)
            sources.append(whole_B if batch.source_lengths is None else batch.source_lengths)
    return torch.cat(nats), torch.cat(labels), torch.cat(sources)
