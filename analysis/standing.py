"""How far a finding lies inside what was predicted of it, in half-widths of its own interval.

Above 1 the whole interval lies inside the prediction, below −1 outside; between, it holds its edge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Bounds = tuple[float | None, float | None]


def standing(plain: Mapping[str, Any], better: str, found: Mapping[str, Any]) -> float:
    """Of one prediction, as the plan tells it, and what was found for it; NaN where that is no
    number with an interval: a share of seeds, ranks, a crossing, or a count, which has no luck."""
    bounds = None if plain["kind"] == "basin" else predicted(plain, better)
    effect, (low, high) = found["effect"], found["interval"]
    if bounds is None or not high > low:  # also where one of them is NaN
        return math.nan
    if plain["word"] == "ratio":  # its interval is even in the logarithm
        if found["shows"] != "ratio" or low <= 0:
            return math.nan
        effect, low, high = map(math.log, (effect, low, high))
        bounds = _log(bounds[0]), _log(bounds[1])
    least, most = bounds
    inside = [math.inf if least is None else effect - least]
    inside += [math.inf if most is None else most - effect]
    return min(inside) / ((high - low) / 2)


def predicted(plain: Mapping[str, Any], better: str) -> Bounds | None:
    """Between which two numbers the effect should lie, either of which may be open; None where it
    is predicted in other words."""
    word, by = plain["word"], plain["by"]
    is_higher = (word == "better") == (better == "higher")
    if word in ("better", "worse"):
        return (by, None) if is_higher else (None, -by)
    if word == "equal":
        return -plain["within"], plain["within"]
    if word == "grows":
        return 0.0, None
    if word in ("ratio", "exponent"):
        low, high = plain["between"]
        return low, high
    return None


def _log(end: float | None) -> float | None:
    return None if end is None else math.log(end)
