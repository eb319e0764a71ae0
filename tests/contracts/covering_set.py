"""Few combinations in which every two values of any two axes meet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import combinations

Row = dict[str, str]
Pair = frozenset[tuple[str, str]]


def pairs_of(row: Mapping[str, str]) -> set[Pair]:
    return {frozenset(pair) for pair in combinations(row.items(), 2)}


def every_pair(axes: Mapping[str, Sequence[str]]) -> set[Pair]:
    return {
        frozenset(((first, a), (second, b)))
        for first, second in combinations(axes, 2)
        for a in axes[first]
        for b in axes[second]
    }


def covering(axes: Mapping[str, Sequence[str]]) -> list[Row]:
    """Each row starts from a pair that has not met, then takes the value that adds most pairs.

    Ties go to the value that stands in most of the open pairs, then to the first one written: the
    same axes always give the same rows.
    """
    left = every_pair(axes)
    order = sorted(axes, key=lambda axis: -len(axes[axis]))
    rows: list[Row] = []
    while left:
        row: Row = dict(min(left, key=lambda pair: sorted(pair)))
        for axis in order:
            if axis not in row:
                row[axis] = max(axes[axis], key=partial(_gain, left, row, axis))
        left -= pairs_of(row)
        rows.append({axis: row[axis] for axis in axes})
    return rows


def _gain(left: set[Pair], row: Row, axis: str, value: str) -> tuple[int, int]:
    met = sum(frozenset((item, (axis, value))) in left for item in row.items())
    return met, sum((axis, value) in pair for pair in left)
