"""The estimate and interval behind a prediction: one function for each kind.

Training is repeated over seeds, timing over processes; counts are exact. A level needs every seed
of both sides, because failed seeds are missing for being bad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ablations.store import predictions as kinds
from ablations.store.identity import value_at
from analysis import stats
from analysis.cases import Case
from analysis.contrasts import difference
from analysis.load import FINE, by_step

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
MOVING = 0.5  # of its margin, over the last third of the steps
FEW_RATES = (5, 6, 8, 10, 15, 20, 30, 40)  # seeds at which a difference of rates is tried
NO_FLOOR = "not timed against a copy of itself"


@dataclass(frozen=True)
class Found:
    """An estimate with its interval, on the scale on which it is judged, and what was predicted."""

    bounds: stats.Bounds = (None, None)
    n: int = 0
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan
    """Standard deviation of single seeds."""
    shows: str = ""
    """The statistic, if it is not the usual one of its prediction."""
    is_log: bool = False
    is_fact: bool = False
    """It is counted, so it has no interval."""
    rates: dict[str, tuple[int, int]] | None = None
    of_items: float | None = None
    said: str = ""
    """The verdict, if the interval alone does not give it."""
    reason: str = ""
    """Why it cannot be judged."""
    remedy: str = ""

    @property
    def verdict(self) -> str:
        """Supported if the interval lies inside the predicted range, refuted if outside."""
        least, most = self.bounds
        if self.reason or math.isnan(self.low):
            return UNDECIDED
        if self.said:
            return self.said
        is_above = least is None or least < self.low
        if is_above and (most is None or self.high < most):
            return SUPPORTED
        is_below = least is not None and self.high <= least
        return REFUTED if is_below or (most is not None and self.low >= most) else UNDECIDED

    @property
    def needed(self) -> float:
        """How many fresh seeds would decide it; NaN if that cannot be estimated."""
        if self.verdict != UNDECIDED or self.reason or self.said:
            return math.nan
        if self.rates is None:
            return stats.seeds_needed(self.effect, self.sd, self.bounds)
        share = self.effect - next(edge for edge in self.bounds if edge is not None)
        for n in FEW_RATES:
            low, high = stats.difference_ends(round(share * n), n)
            if n > self.n and (low > 0 or high < 0):
                return float(n)
        return math.inf


def measure(case: Case, units: Sequence[int]) -> Found:
    """Estimate a prediction from these seeds or processes."""
    p = case.prediction
    if not case.spots or not len(units):
        return Found()
    kind = KINDS[type(p)]
    if getattr(p, "threshold", None) is not None:
        kind = _rate
    elif p.metric == kinds.STEPS:
        kind = _steps
    elif isinstance(p, kinds.Ratio) and case.is_timed:
        kind = _time_ratio
    if kind not in (_rate, _time_ratio, _exact) and (lost := case.lost(units)):
        remedy = "a regime in which no seed fails, or a claim about how many do, on fresh seeds"
        return Found(n=len(units), reason=lost, remedy=remedy)
    try:
        return kind(case, p, units)
    except ValueError as error:  # a value without a logarithm, too few levels for a slope
        return Found(n=len(units), reason=str(error))


def _estimated(estimate: stats.Estimate, bounds: stats.Bounds, case: Case, **more: Any) -> Found:
    """An estimate with its interval; a count has none."""
    effect = estimate.value
    ends = (effect, effect) if case.is_fact else estimate.ends()
    more |= {"is_fact": case.is_fact, "of_items": estimate.of_items}
    if math.isnan(ends[0]) and estimate.n >= stats.LEAST and not math.isnan(effect):
        more["reason"] = "the same in every seed, so its spread cannot be estimated"
        more["remedy"] = "a measure that tells these apart"
    return Found(bounds, estimate.n, effect, *ends, estimate.sd, **more)


def _level(case: Case, p: Any, units: Sequence[int]) -> Found:
    """The mean of paired differences; for trained models it holds for new seeds and test items."""
    spot = case.spots[0]
    if case.metric["repeats"] == "seeds":
        one, two = ((case.experiment, label, spot.factors) for label in (p.variants[0], p.than))
        apart = difference(case.loaded, (one, two), p.metric, p.split, spot.coordinates, units)
    else:
        apart = stats.paired_mean(
            *(case.matrix(label, units)[:, 0] for label in (p.variants[0], p.than))
        )
    if isinstance(p, kinds.Equal):
        return _unless_moving(case, p, _estimated(apart, (-p.within, p.within), case), units)
    is_higher = isinstance(p, kinds.Better) == (case.sign > 0)
    return _estimated(apart, (p.by, None) if is_higher else (None, 0.0 - p.by), case)


def _unless_moving(case: Case, p: kinds.Equal, found: Found, seeds: Sequence[int]) -> Found:
    """Withhold the verdict if the last third of the steps moved the difference by half a margin."""
    if case.metric["repeats"] != "seeds":
        return found
    spot, moved = case.spots[0], []
    for label in (p.variants[0], p.than):
        variant = case.experiment, label, spot.factors
        curve = by_step(case.loaded, variant, p.metric, p.split, spot.coordinates)
        now, then = case.values(label, spot), curve.set_index(["seed", "step"])["value"].to_dict()
        for seed in seeds:
            record = case.loaded.records[case.loaded.ids[variant][seed]]
            steps = value_at(record.config, "train.steps")
            if not isinstance(steps, int):
                return found
            moved.append(now[seed] - then.get((seed, math.ceil(2 * steps / 3)), math.nan))
    one, two = np.array(moved).reshape(2, -1)
    shift = abs(float(np.mean(one - two)))  # NaN if nothing was measured on the way
    is_far = found.verdict == REFUTED and abs(found.effect) - shift > p.within
    if not shift > MOVING * p.within or is_far:
        return found
    reason = "still moving: the difference has not settled"
    return replace(found, reason=reason, remedy="more steps, until the difference stands still")


def _rate(case: Case, p: Any, seeds: Sequence[int]) -> Found:
    """The difference of success rates, with its exact paired interval."""
    spot, n, hits = case.spots[0], len(seeds), []
    for label in (p.variants[0], p.than):
        ended = case.loaded.outcomes.get((case.experiment, label, spot.factors), {})
        good = [seed for seed in seeds if ended.get(seed) == FINE]
        if p.threshold is not None:
            held, sign = case.values(label, spot), case.sign
            if gaps := sum(seed not in held for seed in good):
                return Found(n=n, reason=f"{gaps} of {n} seeds have no score")
            good = [seed for seed in good if sign * held[seed] >= sign * p.threshold]
        hits.append(len(good))
    more = hits[0] - hits[1]
    low, high = stats.difference_ends(more, n)
    bounds = (p.by, None) if isinstance(p, kinds.Better) else (None, 0.0 - p.by)
    rates = {p.variants[0]: (hits[0], n), p.than: (hits[1], n)}
    return Found(bounds, n, more / n, low, high, shows=kinds.Fails.shows, rates=rates)


def _steps(case: Case, p: Any, seeds: Sequence[int]) -> Found:
    """The paired ratio of steps to a loss; fewer steps are better."""
    one, two = (case.matrix(label, seeds)[:, 0] for label in (p.variants[0], p.than))
    never = int((~np.isfinite(one) | ~np.isfinite(two)).sum())
    if never:
        remedy = "a loss that every seed reaches, or a claim about how many do, on fresh seeds"
        reason = f"{never} of {len(seeds)} seeds never reached the loss"
        return Found(n=len(seeds), reason=reason, remedy=remedy)
    apart = stats.paired_mean(np.log(np.maximum(one, 1)), np.log(np.maximum(two, 1)))
    bounds = (None, 0.0) if isinstance(p, kinds.Better) else (0.0, None)
    return _estimated(apart, bounds, case, is_log=True, shows=kinds.Ratio.shows)


def _growth(case: Case, p: kinds.Grows, units: Sequence[int]) -> Found:
    """How much the lead rises when the factor doubles."""
    lead = case.matrix(p.variants[0], units) - case.matrix(p.than, units)
    return _estimated(stats.growth([s.x for s in case.spots], case.sign * lead), (0.0, None), case)


def _exponent(case: Case, p: kinds.Exponent, units: Sequence[int]) -> Found:
    """b of value ∝ level^b."""
    levels = [spot.x for spot in case.spots]
    return _estimated(stats.exponent(levels, case.matrix(p.variants[0], units)), p.between, case)


def _crossing(case: Case, p: kinds.Crosses, units: Sequence[int]) -> Found:
    """The point at which the first variant becomes the higher; times and counts by log ratio."""
    one, two = (case.matrix(label, units) for label in p.variants)
    lead = one - two if case.metric["repeats"] == "seeds" else np.log(one / two)
    levels, floor = [spot.x for spot in case.spots], 0.0
    if case.is_timed:
        floor = float(np.max([case.log_ratios(*side)[1] for side in case.sides]))
    if math.isnan(floor):
        return Found(n=len(units), reason=NO_FLOOR)
    found = stats.crossing(levels, lead, floor, exact=case.is_fact)
    sure = [sign for sign in found.signs if sign]
    # It stays on one side up to the last level that the prediction asks for.
    is_shown_never = len(set(found.signs)) == 1 and max(levels) >= (p.until or 0.0) and sure
    said = UNDECIDED
    if found.changes == 1:
        said = SUPPORTED if sure[0] < 0 else REFUTED
    elif is_shown_never:
        said = REFUTED
    low = 0.0 if math.isnan(found.low) else found.low  # there may be no crossing
    is_fact = said == REFUTED or case.is_fact
    return Found((None, p.until), len(units), found.at, low, found.high, is_fact=is_fact, said=said)


def _log_ends(ends: stats.Bounds) -> stats.Bounds:
    low, high = (None if end is None else math.log(end) if end > 0 else -math.inf for end in ends)
    return low, high


def _ratio(case: Case, p: kinds.Ratio, units: Sequence[int]) -> Found:
    """The mean log ratio to the other variant, or of a metric that is itself a ratio."""
    one = case.matrix(p.variants[0], units)[:, 0]
    two = np.ones_like(one) if p.than is None else case.matrix(p.than, units)[:, 0]
    if not ((one > 0) & (two > 0)).all():
        raise ValueError("a value is not positive: it has no logarithm")
    estimate = stats.mean_of(np.log(one / two))
    return _estimated(estimate, _log_ends(p.between), case, is_log=True)


def _time_ratio(case: Case, p: kinds.Ratio, _: Sequence[int]) -> Found:
    """The ratio to `than`, or to the session's baseline; no narrower than the A/A interval."""
    logs, floor = case.log_ratios(p.variants[0], case.spots[0])
    if p.than is not None:
        other, other_floor = case.log_ratios(p.than, case.spots[0])
        logs = [a - b for a, b in zip(logs, other, strict=False)]
        floor = float(np.maximum(floor, other_floor))  # unknown if either is unknown
    if not logs or math.isnan(floor):
        return Found(n=len(logs), reason=NO_FLOOR)
    ratio, low, high = map(math.log, stats.ratio_ends(logs, floor))
    sd = stats.mean_of(logs, scale=1.0).sd
    return Found(_log_ends(p.between), len(logs), ratio, low, high, sd, is_log=True)


def _exact(case: Case, p: kinds.Exact, units: Sequence[int]) -> Found:
    """Every value within rounding, and no value of the positive control."""
    control = case
    if p.fails_at is not None:
        control = replace(case, prediction=p.model_copy(update={"coordinates": p.fails_at}))
    own = case.matrix(p.variants[0], units).ravel()
    other = control.matrix(p.fails_for or p.variants[0], units).ravel()
    bounds = p.value - p.within, p.value + p.within
    if np.isnan(own).any() or np.isnan(other).any():
        return Found(bounds, len(units), reason="a seed has no value, of it or its control")
    off = np.abs(own - p.value)
    furthest = float(own[np.argmax(off)])
    holds = (off <= p.within).all() and (np.abs(other - p.value) > p.within).all()
    said = SUPPORTED if holds else REFUTED
    return Found(bounds, len(units), furthest, furthest, furthest, is_fact=True, said=said)


KINDS: dict[type, Callable[[Case, Any, Sequence[int]], Found]] = {
    kinds.Better: _level,
    kinds.Worse: _level,
    kinds.Equal: _level,
    kinds.Fails: _rate,
    kinds.Grows: _growth,
    kinds.Exponent: _exponent,
    kinds.Crosses: _crossing,
    kinds.Ratio: _ratio,
    kinds.Exact: _exact,
}
