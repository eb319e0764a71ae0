"""How far answers are from what was asked for, where several answers may be right.

    PER = Σ edits to the nearest reference / Σ phones of that reference
    WER = share of words that equal none of their references

The nearest reference is the one with fewest edits and, among equals, the longest.
"""

from __future__ import annotations

from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

Tokens = Sequence[int]


def nearest(output: Tokens, references: Sequence[Tokens]) -> Tokens:
    """The reference that an output is measured against."""
    return min(references, key=lambda said: (edits(output, said), -len(said)))


def edits(output: Tokens, reference: Tokens) -> int:
    """Tokens to insert, delete or replace (Levenshtein 1966)."""
    return Levenshtein.distance(output, reference)


def error_rates(outputs: Sequence[Tokens], close: Sequence[Tokens]) -> tuple[float, float]:
    """PER and WER of outputs against the nearest reference of each."""
    counts = [edits(*both) for both in zip(outputs, close, strict=True)]
    wrong = sum(count > 0 for count in counts)
    return sum(counts) / sum(map(len, close)), wrong / len(counts)
