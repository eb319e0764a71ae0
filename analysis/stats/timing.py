"""Times of one candidate against its reference's, in blocks that share the machine's mood."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.stats.differences import interval
from analysis.stats.words import FASTER, FEW, LEAST, NOT_RESOLVED, NOT_RUN, SLOWER


@dataclass(frozen=True)
class Ratio:
    """Time of one candidate over its reference's: a geometric mean over processes."""

    n: int
    ratio: float = math.nan
    low: float = math.nan
    high: float = math.nan


def timing_ratio(samples: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Of one process: what its blocks say, which share its luck."""
    return ratio_over_processes(_log_ratios(samples, reference))


def log_ratio(samples: Sequence[float], reference: Sequence[float]) -> float:
    """Of one process: the mean log ratio of its blocks."""
    if not samples:
        raise ValueError("nothing was timed")
    return math.fsum(_log_ratios(samples, reference)) / len(samples)


def _log_ratios(samples: Sequence[float], reference: Sequence[float]) -> list[float]:
    if len(samples) != len(reference):
        raise ValueError(f"{len(samples)} samples but {len(reference)} of the reference")
    if not all(0 < value < math.inf for value in (*samples, *reference)):
        raise ValueError("a time is not a positive number")
    return list(np.log(np.divide(samples, reference)).tolist())


def ratio_over_processes(log_ratios: Sequence[float]) -> Ratio:
    """t-interval on the mean of the processes' log ratios, exponentiated.

    Blocks of one process share its luck, so they only make its own mean sharper.
    """
    if not len(log_ratios):
        return Ratio(0)
    # Logs are of order 1, so rounding is judged on that scale.
    log = interval(list(log_ratios), scale=1.0)
    return Ratio(log.n, math.exp(log.mean), math.exp(log.low), math.exp(log.high))


def noise_floor(same: Ratio) -> float:
    """The largest |log ratio| that a candidate timed against itself still allows."""
    if math.isnan(same.low):
        return math.nan
    return max(abs(math.log(end)) for end in (same.low, same.ratio, same.high))


def speed_verdict(ratio: Ratio, floor: float) -> str:
    """Slower or faster, if both the interval and the noise floor of the session allow it."""
    if ratio.n == 0:
        return NOT_RUN
    if ratio.n < LEAST:
        return FEW
    seen = abs(math.log(ratio.ratio)) > floor  # NaN floor: no A/A pair, nothing is resolved
    if not seen or not (ratio.low > 1 or ratio.high < 1):
        return NOT_RESOLVED
    return SLOWER if ratio.ratio > 1 else FASTER
