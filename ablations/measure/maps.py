"""What a trained model attends to in a few examples.

B: sequences, H: heads, T: queries, S: keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ablations.measure import MEASURE, Measure, Taken
from ablations.measure.heads import unfused
from ablations.store.record import Reading
from ablations.tasks.data.tokens import Tokens
from ablations.tasks.data.vocabulary import Vocabulary
from ablations.tasks.task import Task
from model.attention import attention
from model.batch import Batch

EXAMPLES = 3
SHORT = 16  # tokens, of the longer side
WHOLE = 32  # tokens: what is longer and has no source is shown by its first SHORT
DIGITS = 4
READ_WITH = ("letters", "vocabulary", "tokens")
"""Where a task keeps what the ids of its sources stand for."""


@MEASURE.register("maps")
class Maps(Measure):
    """Each layer's weights in short examples of test, by head, query and key, to four digits.

    Of the examples with at most 16 tokens on either side, those at a quarter, half and three
    quarters of the way: batches are sorted by length, and the first would be too short to show
    anything. Where there is no source, an example of over 32 tokens is shown by its first 16.
    `example` counts in the order of the evaluation batches.
    """

    def take(self, model: nn.Module, task: Task, device: torch.device, step: int) -> Taken:
        at: dict[str, float | str] = {"step": step}
        chosen = examples(task.evaluation_batches("test"))
        if not chosen:
            return _nothing(at, f"no example of test is as short as {SHORT} tokens")
        shown = unfused(model)
        readings = [
            _map(task, batch, layer, weights_BHTS[0], {**at, "layer": layer, "example": number})
            for number, batch in chosen
            for layer, weights_BHTS in attention(shown, batch.to(device)).items()
        ]
        return Taken(readings) if readings else _nothing(at, "the model attends to nothing")


def _nothing(at: dict[str, float | str], reason: str) -> Taken:
    return Taken([Reading("attention", "probability", None, "test", at, reason=reason)])


def _map(
    task: Task, batch: Batch, layer: str, weights_HTS: Tensor, at: dict[str, float | str]
) -> Reading:
    if not weights_HTS.isfinite().all():
        reason = "the model's weights are not finite"
        return Reading("attention", "probability", None, "test", at, reason=reason)
    of_source = layer.startswith("encoder")
    to_source = of_source or "cross" in layer or layer == "shown"  # a recurrent model's
    axes = {
        "head": list(range(len(weights_HTS))),
        "query": words(task, batch, of_source),
        "key": words(task, batch, to_source),
    }
    values = weights_HTS.double().round(decimals=DIGITS).tolist()
    return Reading("attention", "probability", None, "test", at, axes=axes, values=values)


def words(task: Task, batch: Batch, of_source: bool) -> list[Any]:
    """Each token of one example for a reader's eye; where it stands, if the task cannot tell."""
    tokens_BT = batch.source if of_source else batch.inputs
    assert tokens_BT is not None
    ids = tokens_BT[0].tolist()
    if not of_source:
        try:
            return task.show(ids)
        except NotImplementedError:
            return list(range(len(ids)))
    for name in READ_WITH:
        known = getattr(task, name, None)
        if isinstance(known, Vocabulary):
            return known.decode(ids)
        if isinstance(known, Tokens):
            return known.show(ids)
    return list(range(len(ids)))


def examples(batches: Sequence[Batch]) -> list[tuple[int, Batch]]:
    """Up to three short ones with their numbers, each without padding."""
    places = [(batch, row) for batch in batches for row in range(len(batch.labels))]
    alone = ((number, single(*place)) for number, place in enumerate(places))
    short = [(number, batch) for number, batch in alone if _size(batch) <= SHORT]
    quarters = {len(short) * k // (EXAMPLES + 1) for k in range(1, EXAMPLES + 1)}
    return [short[index] for index in sorted(quarters)] if short else []


def single(batch: Batch, row: int) -> Batch:
    """One sequence of a batch, no longer than it is; the beginning of a long text."""

    def own(x_BT: Tensor | None, lengths_B: Tensor | None) -> Tensor | None:
        if x_BT is None:
            return None
        end = x_BT.shape[1] if lengths_B is None else int(lengths_B[row])
        is_cut = batch.source is None and end > WHOLE
        return x_BT[row : row + 1, : SHORT if is_cut else end]

    return replace(
        batch,
        labels=batch.labels[row : row + 1],
        inputs=own(batch.inputs, batch.lengths),
        lengths=None,
        source=own(batch.source, batch.source_lengths),
        source_lengths=None,
        segments=own(batch.segments, batch.source_lengths),
    )


def _size(batch: Batch) -> int:
    """Tokens of the longer side; without a source every example is short, or made so."""
    if batch.source is None:
        return 0
    return max(x.shape[1] for x in (batch.source, batch.inputs) if x is not None)
