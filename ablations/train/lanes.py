"""Batches of several trainings in one shape, a lane for each: lane i holds what training i reads.

P: lanes, B: sequences, T: target positions, S: source positions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from model.batch import IGNORE, PAD, Batch

_FILL = {"labels": IGNORE, "inputs": PAD, "source": PAD, "segments": 0}
_LENGTHS = {"lengths": "inputs", "source_lengths": "source"}


class LaneBatch(Batch):
    """A batch inside vmap, where no number can be asked for; it was checked as it was cut."""

    def __post_init__(self) -> None:
        pass


def side_by_side(batches: Sequence[Batch | None]) -> dict[str, Tensor]:
    """The fields of these batches, P first, each as large as the largest; None has no rows at all.

    What is added has no label, and lies beyond the lengths that then are told: nothing is learned
    from it, and nothing real looks at it. A row that is added is one token long.
    """
    some = next(batch for batch in batches if batch is not None)
    rows = max(len(batch.labels) for batch in batches if batch is not None)
    found: dict[str, Tensor] = {}
    for name, fill in _FILL.items():
        if (like := getattr(some, name)) is not None:
            each = [_field(batch, name, like) for batch in batches]
            longest = [max(sizes) for sizes in zip(*(t.shape[1:] for t in each), strict=True)]
            found[name] = torch.stack([_grown(t, [rows, *longest], fill) for t in each])
    for name, side in _LENGTHS.items():
        if side in found:
            width = found[side].shape[2]
            each = [_lengths(batch, name, side) for batch in batches]
            if any(bool((lengths_B < width).any()) for lengths_B in each):
                found[name] = torch.stack([_grown(lengths_B, [rows], 1) for lengths_B in each])
    return found


def _field(batch: Batch | None, name: str, like: Tensor) -> Tensor:
    return like[:0] if batch is None else getattr(batch, name)


def _lengths(batch: Batch | None, name: str, side: str) -> Tensor:
    if batch is None:
        return torch.empty(0, dtype=torch.long)
    told: Tensor | None = getattr(batch, name)
    tokens_BT: Tensor = getattr(batch, side)
    return torch.full((len(tokens_BT),), tokens_BT.shape[1]) if told is None else told


def _grown(tensor: Tensor, shape: Sequence[int], fill: int) -> Tensor:
    """Filled up at the end of every dimension."""
    missing = [
        end
        for size, now in zip(reversed(shape), reversed(tensor.shape), strict=True)
        for end in (0, size - now)
    ]
    return F.pad(tensor, missing, value=fill) if any(missing) else tensor
