"""Shares of seeds that end in a basin, past a threshold: exact at any number of seeds.

A basin is one outcome or the other; that all seeds agree is what it can say best. Three seeds out
of three against none have no spread and still a p.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from analysis.stats.estimate import LEVEL, Tails

RATES = np.linspace(0.0, 1.0, 2001)[1:-1]  # where the worst common share is looked for


def share_ends(hits: int, n: int, level: float = LEVEL) -> tuple[float, float]:
    """The share that hits of n leave possible (Clopper & Pearson 1934).

    low solves P(X ≥ hits) = tail, high P(X ≤ hits) = tail: quantiles of beta distributions.
    """
    _check(hits, n)
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return low, high


def share_tails(hits: int, n: int, share: float) -> Tails:
    """One arm against a fixed share: P(X ≥ hits) and P(X ≤ hits) of a binomial."""
    _check(hits, n)
    more = float(special.bdtrc(hits - 1, n, share)) if hits else 1.0
    return Tails(more, float(special.bdtr(hits, n, share)))


def fisher(hits: int, n: int, control_hits: int, control_n: int) -> Tails:
    """Two arms, given how many seeds of both hit: the hypergeometric tails (Fisher 1935)."""
    _check(hits, n)
    _check(control_hits, control_n)
    return Tails(
        float(_fisher_table(n, control_n)[hits, control_hits]),
        float(_fisher_table(control_n, n)[control_hits, hits]),
    )


def boschloo(hits: int, n: int, control_hits: int, control_n: int) -> Tails:
    """Two arms, worst case over the share that both might have (Boschloo 1970).

    p = max over π of P_π(Fisher's p ≤ the one seen): never above Fisher's, half of it or less at
    few seeds. Exact for independent arms; below p = ½ for pairs too, as long as a seed that helps
    one arm does not hurt the other (tests enumerate it at 3, 5 and 10 seeds).
    """
    _check(hits, n)
    _check(control_hits, control_n)
    return Tails(
        float(_boschloo_table(n, control_n)[hits, control_hits]),
        float(_boschloo_table(control_n, n)[control_hits, hits]),
    )


@lru_cache(maxsize=64)
def _fisher_table(n: int, m: int) -> NDArray[np.float64]:
    """One-sided p (first arm more) of every outcome: (hits of n, hits of m)."""
    hits, others = np.arange(n + 1)[:, None], np.arange(m + 1)[None, :]
    table: NDArray[np.float64] = stats.hypergeom.sf(hits - 1, n + m, hits + others, n)
    return np.minimum(1.0, table)


@lru_cache(maxsize=64)
def _boschloo_table(n: int, m: int) -> NDArray[np.float64]:
    """The same for Boschloo's test: outcomes in Fisher's order, their chances added up."""
    order = _fisher_table(n, m).round(12).ravel()
    first = stats.binom.pmf(np.arange(n + 1)[:, None], n, RATES)
    second = stats.binom.pmf(np.arange(m + 1)[:, None], m, RATES)
    chance_OR = (first[:, None, :] * second[None, :, :]).reshape(order.size, RATES.size)
    rank = np.argsort(order)
    worst = np.cumsum(chance_OR[rank], axis=0).max(axis=1)
    last = np.searchsorted(order[rank], order[rank], side="right") - 1  # ties come in together
    table = np.empty(order.size)
    table[rank] = worst[last]
    return np.minimum(1.0, table).reshape(n + 1, m + 1)


def _check(hits: int, n: int) -> None:
    if not 0 <= hits <= n or n < 1:
        raise ValueError(f"{hits} of {n} seeds is no share")
