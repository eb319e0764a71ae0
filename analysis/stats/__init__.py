"""What few seeds can say: estimates, exact tests, margins, looks, and when to stay silent.

Every function takes and gives plain numbers or arrays, draws nothing at random and reads no file.
A difference is variant − control. What cannot be known is NaN, never zero.
"""

from analysis.stats.basins import Basin, basin, difference_ends, difference_tails, mcnemar
from analysis.stats.crossings import Crossing, crossing
from analysis.stats.differences import Difference, Interval, interval, paired
from analysis.stats.estimate import (
    ALPHA,
    LEVEL,
    Estimate,
    Tails,
    fact,
    mean_of,
    paired_mean,
    spread,
    unpaired_mean,
)
from analysis.stats.families import FalseVerdicts, false_verdicts, holm
from analysis.stats.items import TwoLucks, two_lucks, widened
from analysis.stats.looks import (
    BASIN_LOOKS,
    LEVEL_LOOKS,
    Decision,
    Looks,
    Planned,
    decide,
    decide_family,
)
from analysis.stats.margins import (
    REFUTED,
    SUPPORTED,
    UNDECIDED,
    Tested,
    better_by,
    directed,
    equal_within,
    not_worse_by,
    worse_by,
)
from analysis.stats.pairs import Pairing, correlation, pairing
from analysis.stats.power import LIMIT, POWER, SeedsNeeded, detectable, power_of, seeds_needed
from analysis.stats.ranks import Ranked, sign_test, signed_rank
from analysis.stats.shares import boschloo, fisher, share_ends, share_tails
from analysis.stats.slopes import exponent, growth, interaction, local_exponents, seed_slopes
from analysis.stats.timing import (
    Ratio,
    log_ratio,
    noise_floor,
    ratio_over_processes,
    speed_verdict,
    timing_ratio,
)
from analysis.stats.words import (
    BETTER,
    FASTER,
    FEW,
    LEAST,
    NOT_RESOLVED,
    NOT_RUN,
    SLOWER,
    WORSE,
    verdict,
)

__all__ = [
    "ALPHA",
    "BASIN_LOOKS",
    "BETTER",
    "FASTER",
    "FEW",
    "LEAST",
    "LEVEL",
    "LEVEL_LOOKS",
    "LIMIT",
    "NOT_RESOLVED",
    "NOT_RUN",
    "POWER",
    "REFUTED",
    "SLOWER",
    "SUPPORTED",
    "UNDECIDED",
    "WORSE",
    "Basin",
    "Crossing",
    "Decision",
    "Difference",
    "Estimate",
    "FalseVerdicts",
    "Interval",
    "Looks",
    "Pairing",
    "Planned",
    "Ranked",
    "Ratio",
    "SeedsNeeded",
    "Tails",
    "Tested",
    "TwoLucks",
    "basin",
    "better_by",
    "boschloo",
    "correlation",
    "crossing",
    "decide",
    "decide_family",
    "detectable",
    "difference_ends",
    "difference_tails",
    "directed",
    "equal_within",
    "exponent",
    "fact",
    "false_verdicts",
    "fisher",
    "growth",
    "holm",
    "interaction",
    "interval",
    "local_exponents",
    "log_ratio",
    "mcnemar",
    "mean_of",
    "noise_floor",
    "not_worse_by",
    "paired",
    "paired_mean",
    "pairing",
    "power_of",
    "ratio_over_processes",
    "seed_slopes",
    "seeds_needed",
    "share_ends",
    "share_tails",
    "sign_test",
    "signed_rank",
    "speed_verdict",
    "spread",
    "timing_ratio",
    "two_lucks",
    "unpaired_mean",
    "verdict",
    "widened",
    "worse_by",
]
