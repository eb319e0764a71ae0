"""Many contrasts of one question: what is declared counts, whether or not it was run.

Also what many questions, each held to its own level, leave to chance between them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.estimate import LEVEL


def holm(p: Sequence[float], family: int | None = None) -> list[float]:
    """Step-down p-values of a family of fixed size (Holm 1979).

    The i-th smallest of m is max over j ≤ i of (m − j + 1) · p_j, at most 1. A declared contrast
    without a p (NaN), or beyond those given, counts as p = 1.
    """
    raw = np.asarray(p, dtype=np.float64)
    size = raw.size if family is None else family
    if size < raw.size:
        raise ValueError(f"{raw.size} p-values in a family of {size}: declare every contrast")
    adjusted = np.full(raw.size, math.nan)
    floor = 0.0
    known = [int(i) for i in np.argsort(raw, kind="stable") if not math.isnan(raw[i])]
    for rank, index in enumerate(known):
        floor = max(floor, min(1.0, float(raw[index]) * (size - rank)))
        adjusted[index] = floor
    return [float(value) for value in adjusted]


@dataclass(frozen=True)
class FalseVerdicts:
    """How many questions chance alone may have answered wrongly, at most."""

    questions: int
    expected: float  # of them with any false verdict; true whatever depends on what
    any: float  # chance that there is at least one, were the questions independent
    limit: int  # no more than this many at the level asked for, were they independent
    share: float  # of the questions that were decided; NaN where none was


def false_verdicts(
    alphas: Sequence[float], decided: int = 0, level: float = LEVEL
) -> FalseVerdicts:
    """From the level of each question: E = Σ α_q; the number is Poisson-binomial.

    Each α_q bounds the chance of any false verdict in that question's family (as Holm's does).
    """
    if not all(0 <= alpha <= 1 for alpha in alphas):
        raise ValueError("the level of a question is a chance, between 0 and 1")
    if not 0 <= decided <= len(alphas):
        raise ValueError(f"{decided} of {len(alphas)} questions cannot be decided")
    chances = np.ones(1)  # of 0, 1, 2 … false ones
    for alpha in alphas:
        chances = np.convolve(chances, [1 - alpha, alpha])
    expected = float(sum(alphas))
    limit = int(np.argmax(np.cumsum(chances) >= level - 1e-12))
    share = min(1.0, expected / decided) if decided else math.nan
    return FalseVerdicts(len(alphas), expected, 1 - float(chances[0]), limit, share)
