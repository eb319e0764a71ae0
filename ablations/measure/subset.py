"""Some of a split, where all of it would take too long; the same ones for every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from model.batch import Batch


def some(batches: Sequence[Batch], tokens: int) -> list[Batch]:
    """Every so many-th example, so that about so many tokens are read; batches are of like length,
    so all lengths stay."""
    whole = sum(x.numel() for b in batches for x in (b.inputs, b.source) if x is not None)
    every = max(1, whole // tokens)
    chosen, seen = [], 0
    for batch in batches:
        rows = slice(-seen % every, None, every)
        part = {name: x[rows] for name, x in vars(batch).items() if x is not None}
        if len(part["labels"]):
            chosen.append(replace(batch, **part))
        seen += len(batch.labels)
    return chosen
