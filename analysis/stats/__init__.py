"""What a few seeds can say: estimates with 95 % intervals, from plain numbers.

Nothing here draws at random or reads a file.
"""

from analysis.stats.crossings import Crossing, crossing
from analysis.stats.estimates import (
    LEAST,
    LEVEL,
    Bounds,
    Estimate,
    SeedAndItemEstimate,
    exponent,
    growth,
    log_ratio,
    mean_of,
    noise_floor,
    paired_mean,
    ratio_ends,
    seeds_and_items,
    seeds_needed,
    unpaired_mean,
)
from analysis.stats.rates import difference_ends, rate_ends

BETTER, WORSE, TIE, NOT_RESOLVED = "better", "worse", "tie", "not resolved"
FAILED, FEW, NOT_RUN = "failed", "few seeds", "not run"
SLOWER, FASTER = "slower", "faster"

__all__ = [
    "BETTER",
    "FAILED",
    "FASTER",
    "FEW",
    "LEAST",
    "LEVEL",
    "NOT_RESOLVED",
    "NOT_RUN",
    "SLOWER",
    "TIE",
    "WORSE",
    "Bounds",
    "Crossing",
    "Estimate",
    "SeedAndItemEstimate",
    "crossing",
    "difference_ends",
    "exponent",
    "growth",
    "log_ratio",
    "mean_of",
    "noise_floor",
    "paired_mean",
    "rate_ends",
    "ratio_ends",
    "seeds_and_items",
    "seeds_needed",
    "unpaired_mean",
]
