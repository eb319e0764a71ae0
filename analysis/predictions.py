"""What was measured for a prediction: one function a kind, each an estimate with its interval.

Seeds repeat what is trained, processes what is timed; what is counted is a fact. A level needs
every seed of both sides: those that failed are missing because they were bad.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.store.predictions import (
    STEPS,
    Better,
    Crosses,
    Equal,
    Exact,
    Exponent,
    Fails,
    Grows,
    Prediction,
    Ratio,
    Worse,
)
from analysis import stats
from analysis.load import FINE, Loaded, crossing
from analysis.scores import difference, outcomes, scores, steps_to_reach
from analysis.speed import log_ratios, log_seconds, places

SUPPORTED, REFUTED, UNDECIDED = "supported", "refuted", "undecided"
PROCESSES, NOTHING = "processes", "nothing"  # what repeats a metric, where seeds do not
MOVING = 0.5  # of its margin, over the last third of the steps
FEW_RATES = (5, 6, 8, 10, 15, 20, 30, 40)  # seeds at which a difference of rates is tried

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spot:
    """One place that a prediction looks at: levels of the factors, coordinates, and how far along
    its factor."""

    across: str
    at: dict[str, Any]
    x: float = math.nan


@dataclass(frozen=True)
class Found:
    """An estimate with its interval, on the scale on which it is judged, and what was predicted."""

    bounds: stats.Bounds = (None, None)
    n: int = 0
    effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan
    """Of single seeds."""
    shows: str = ""
    """Where that is not the kind's own."""
    is_log: bool = False
    is_fact: bool = False
    """Counted: nothing is left to luck, and there is no interval to show."""
    rates: dict[str, tuple[int, int]] | None = None
    of_items: float | None = None
    said: str = ""
    """The word, where the interval alone does not give it."""
    reason: str = ""
    """Why it cannot be judged."""
    remedy: str = ""

    @property
    def word(self) -> str:
        """Supported where the interval lies inside what is predicted, refuted outside."""
        least, most = (
            edge if edge is not None else open_
            for edge, open_ in zip(self.bounds, (-math.inf, math.inf), strict=True)
        )
        if self.reason or math.isnan(self.low):
            return UNDECIDED
        if self.said:
            return self.said
        if least < self.low and self.high < most:
            return SUPPORTED
        return REFUTED if self.high <= least or self.low >= most else UNDECIDED

    @property
    def needed(self) -> float:
        """Fresh seeds that would decide it, as far as size and spread are known."""
        if self.word != UNDECIDED or self.reason or self.said:
            return math.nan
        if self.rates is not None:
            share = self.effect - next(edge for edge in self.bounds if edge is not None)
            deciding = (n for n in FEW_RATES if n > self.n and _decides(share, n))
            return float(next(deciding, math.inf))
        return stats.seeds_needed(self.effect, self.sd, self.bounds)


def _decides(share: float, n: int) -> bool:
    low, high = stats.difference_ends(round(share * n), n)
    return low > 0 or high < 0


@dataclass(frozen=True)
class Case:
    """One prediction of one question, at one crossing or along one factor."""

    loaded: Loaded
    ablation: str
    prediction: Prediction
    crossings: tuple[dict[str, str], ...]

    @property
    def entry(self) -> dict[str, Any]:
        return self.loaded.ablations[self.ablation]

    @property
    def metric(self) -> dict[str, Any]:
        """What is known of its metric."""
        found: dict[str, Any] = self.entry["metrics"].get(self.prediction.metric, {})
        return found

    @property
    def repeats(self) -> str:
        return str(self.metric.get("repeats", "seeds"))

    @property
    def is_timed(self) -> bool:
        return self.repeats == PROCESSES

    @property
    def is_fact(self) -> bool:
        return self.repeats == NOTHING or isinstance(self.prediction, Exact)

    @property
    def better(self) -> str:
        return str(self.metric.get("better", "lower"))

    @property
    def arms(self) -> list[tuple[str, str]]:
        """Every variant and crossing that it looks at."""
        lines = [crossing(across) for across in self.crossings]
        return [(label, line) for label in self.prediction.labels for line in lines]

    @cached_property
    def spots(self) -> list[Spot]:
        """Every place that it looks at, in the order of its factor."""
        p = self.prediction
        along, since = getattr(p, "along", None), getattr(p, "since", None)
        if along is None:
            return [Spot(crossing(across), p.at) for across in self.crossings]
        found = []
        for across in self.crossings:
            line = crossing(across)
            if along in across:
                found.append(Spot(line, p.at, float(across[along])))
            else:
                found += [Spot(line, {**p.at, along: x}, x) for x in self._read_along(line, along)]
        return sorted((s for s in found if since is None or s.x >= since), key=lambda s: s.x)

    def _read_along(self, across: str, along: str) -> list[float]:
        """Where along a coordinate every variant was read."""
        name, p = self.ablation, self.prediction
        found = []
        for label in p.labels:
            if self.is_timed:
                groups = places(self.loaded, name, label, across, p.metric, p.at)
                read = {g[0]["at"][along] for g in groups if along in g[0]["at"] and log_seconds(g)}
            else:
                rows = self.loaded.readings.iloc[self.loaded.rows.get((name, p.metric), [])]
                mine = rows[(rows["label"] == label) & (rows["across"] == across)]
                read = set(mine[along].dropna()) if along in mine else set()
            found.append(read)
        return sorted(set.intersection(*found))

    def ready(self) -> tuple[list[int], str]:
        """The seeds or processes that judge it, and why they do not yet."""
        if self.is_timed:
            return self._processes()
        least = 1 if self.is_fact else stats.LEAST
        arms = [(self.ablation, *arm) for arm in self.arms]
        planned = [self.loaded.trials.get(arm, {}).keys() for arm in arms]
        ended = [self.loaded.outcomes.get(arm, {}).keys() for arm in arms]
        reason, done = "not planned for every variant that it looks at", []
        for batch in self.entry["batches"]:
            asked = [seed for seed in batch if all(seed in own for own in planned)]
            have = [seed for seed in asked if all(seed in own for own in ended)]
            if not asked or (not reason and (have != asked or len(have) < least)):
                continue  # of a batch that is not whole nothing is judged, once another was
            done, reason = have, ""
            if have != asked:
                reason = f"pass {len(have)} of {len(asked)}"
            elif len(have) < least:
                reason = (
                    f"{len(have)} seed{'s' * (len(have) > 1)}; {least} are needed for a verdict"
                )
        return done, reason

    def _processes(self) -> tuple[list[int], str]:
        sessions = {
            str(group[0]["session"]).partition(".")[0]
            for label in self.prediction.labels
            for spot in self.spots
            for group in self._places(label, spot)
        }
        if len(sessions) > 1 and not isinstance(self.prediction, Ratio):
            return [], "timed in different sessions, which have nothing in common"
        held = [len(self.values(label, s)) for label in self.prediction.labels for s in self.spots]
        n = min(held, default=0)
        if n == 0:
            return [], "not timed at the places that it looks at"
        told = f"timed in {n} process{'es' * (n > 1)}; {stats.LEAST} are needed"
        return list(range(n)), told if n < stats.LEAST else ""

    def _places(self, label: str, spot: Spot) -> list[list[dict[str, Any]]]:
        return places(
            self.loaded, self.ablation, label, spot.across, self.prediction.metric, spot.at
        )

    def values(self, label: str, spot: Spot) -> dict[int, float]:
        """Seed, or process, → the value of a variant at a place."""
        p = self.prediction
        if self.is_timed:
            found = self._places(label, spot)
            # Timed at several places, and it does not say which: nothing is known.
            logs = log_seconds(found[0]) if len(found) == 1 else []
            return {process: math.exp(log) for process, log in enumerate(logs)}
        if p.metric == STEPS:
            level = float(p.at["loss"])
            return steps_to_reach(self.loaded, self.ablation, label, spot.across, level)
        return scores(self.loaded, self.ablation, label, spot.across, p.metric, p.split, spot.at)

    def matrix(self, label: str, units: Sequence[int]) -> Floats:
        """S L: the values of a variant, by seed or process and place along its factor."""
        held = [self.values(label, spot) for spot in self.spots]
        return np.array([[each.get(unit, math.nan) for each in held] for unit in units])

    def timed_side(self, label: str, spot: Spot) -> tuple[list[float], float]:
        """A variant's log ratios to the reference's times, and the noise floor."""
        found = self._places(label, spot)
        return log_ratios(found[0])[:2] if len(found) == 1 else ([], math.nan)

    def floor(self) -> float:
        """How far two copies of one model are apart; NaN where there was no second copy."""
        if not self.is_timed:
            return 0.0
        sides = [self.timed_side(label, s)[1] for label in self.prediction.labels
                 for s in self.spots]  # fmt: skip
        return float(np.max(sides)) if sides else math.nan

    def lost(self, seeds: Sequence[int]) -> str:
        """How many of these seeds failed or have no score, on either side; empty if none."""
        if self.is_timed:
            return ""
        ended = [outcomes(self.loaded, self.ablation, *arm) for arm in self.arms]
        failed = sum(any(own.get(seed) != FINE for own in ended) for seed in seeds)
        if failed:
            return f"{failed} of {len(seeds)} seeds failed"
        held = [self.values(label, s) for label in self.prediction.labels for s in self.spots]
        gaps = sum(any(seed not in own for own in held) for seed in seeds)
        return f"{gaps} of {len(seeds)} seeds have no score" if gaps else ""

    def seconds(self) -> float:
        """What one more seed of everything that it looks at takes; NaN where it is not known."""
        found = []
        for arm in self.arms:
            trials = self.loaded.trials.get((self.ablation, *arm), {}).values()
            held = [self.loaded.records[t].env for t in trials if t in self.loaded.records]
            spent = [env["seconds"] for env in held if env.get("seconds") is not None]
            found.append(math.fsum(spent) / len(spent) if spent else math.nan)
        return math.fsum(found) if found else math.nan


def cases(loaded: Loaded, ablation: str, prediction: Prediction) -> list[Case]:
    """The prediction at each crossing that it does not tell apart itself."""
    every = {crossing(c["across"]): c["across"] for c in loaded.ablations[ablation]["cells"]}
    along = getattr(prediction, "along", None)
    groups: dict[str, list[dict[str, str]]] = {}
    for across in every.values():
        if all(across.get(name) == level for name, level in prediction.across.items()):
            rest = {name: level for name, level in across.items() if name != along}
            groups.setdefault(crossing(rest), []).append(across)
    found = []
    for group in groups.values():
        levels = {name: level for name, level in group[0].items() if name != along}
        pinned = prediction.model_copy(update={"across": levels})
        found.append(Case(loaded, ablation, pinned, tuple(group)))
    return found or [Case(loaded, ablation, prediction, ())]


def measure(case: Case, units: Sequence[int]) -> Found:
    """What these seeds or processes say of a prediction."""
    p = case.prediction
    if not case.spots or not len(units):
        return Found()
    is_rate = isinstance(p, Fails) or getattr(p, "threshold", None) is not None
    is_timed_ratio = isinstance(p, Ratio) and case.is_timed
    if not (is_rate or is_timed_ratio or isinstance(p, Exact)) and (lost := case.lost(units)):
        remedy = "a regime in which no seed fails, or a claim about how many do, on fresh seeds"
        return Found(n=len(units), reason=lost, remedy=remedy)
    kind: Callable[[Case, Any, Sequence[int]], Found] = KINDS[type(p)]
    if is_rate:
        kind = _rate
    elif p.metric == STEPS:
        kind = _steps
    try:
        return kind(case, p, units)
    except ValueError as error:  # a value without a logarithm, too few levels for a slope
        return Found(n=len(units), reason=str(error))


def _estimated(
    estimate: stats.Estimate | stats.SeedAndItemEstimate,
    bounds: stats.Bounds,
    case: Case,
    **more: Any,
) -> Found:
    """An estimate with its interval; a count as it is."""
    effect = estimate.value
    ends = (effect, effect) if case.is_fact else estimate.ends()
    told = {"is_fact": case.is_fact, "sd": estimate.sd, **more}
    if isinstance(estimate, stats.SeedAndItemEstimate):
        told["of_items"] = estimate.of_items
    found = Found(bounds, estimate.n, effect, *ends, **told)
    if math.isnan(found.low) and estimate.n > 1 and not math.isnan(effect):
        same = "the same in every seed, so its spread cannot be told"
        return replace(found, reason=same, remedy="a measure that tells these apart")
    return found


def _level(case: Case, p: Better | Worse | Equal, units: Sequence[int]) -> Found:
    """The mean of paired differences; of what is trained, for other seeds and test items."""
    spot, pair = case.spots[0], (p.of[0], p.than)
    if case.repeats == "seeds":
        place = spot.across, p.metric, p.split, spot.at
        apart = difference(case.loaded, case.ablation, pair, *place, units)
    else:
        one, two = (case.matrix(label, units)[:, 0] for label in pair)
        apart = stats.paired_mean(one, two)
    if isinstance(p, Equal):
        found = _estimated(apart, (-p.within, p.within), case)
        return _unless_moving(case, p, found, units)
    is_higher = isinstance(p, Better) == (case.better == "higher")
    return _estimated(apart, (p.by, None) if is_higher else (None, 0.0 - p.by), case)


def _unless_moving(case: Case, p: Equal, found: Found, seeds: Sequence[int]) -> Found:
    """Two variants are only equal once their difference stands still: over the last third of the
    steps it moves by at most half the margin."""
    spot, moved = case.spots[0], []
    for seed in seeds:
        then = []
        for label in (p.of[0], p.than):
            trial = case.loaded.trials[case.ablation, label, spot.across][seed]
            steps = (case.loaded.records[trial].config.get("train") or {}).get("steps")
            if not isinstance(steps, int) or case.repeats != "seeds":
                return found
            place = label, spot.across, p.metric, p.split, spot.at
            late = math.ceil(2 * steps / 3)
            then.append(scores(case.loaded, case.ablation, *place, late).get(seed, math.nan))
        now = [case.values(label, spot)[seed] for label in (p.of[0], p.than)]
        moved.append((now[0] - now[1]) - (then[0] - then[1]))
    shift = abs(float(np.mean(moved)))  # NaN where nothing was read on the way
    is_far = found.word == REFUTED and abs(found.effect) - shift > p.within
    if not shift > MOVING * p.within or is_far:
        return found
    reason = "still moving: the difference has not settled"
    return replace(found, reason=reason, remedy="more steps, until the difference stands still")


def _rate(case: Case, p: Better | Worse | Fails, seeds: Sequence[int]) -> Found:
    """The difference of success rates, with its exact paired interval."""
    spot, sides = case.spots[0], []
    for label in (p.of[0], p.than):
        ended = outcomes(case.loaded, case.ablation, label, spot.across)
        good = [seed for seed in seeds if ended.get(seed) == FINE]
        if p.threshold is not None:
            held, sign = case.values(label, spot), 1 if case.better == "higher" else -1
            if gaps := sum(seed not in held for seed in good):
                return Found(n=len(seeds), reason=f"{gaps} of {len(seeds)} seeds have no score")
            good = [seed for seed in good if sign * held[seed] >= sign * p.threshold]
        sides.append(len(good))
    n, more = len(seeds), sides[0] - sides[1]
    low, high = stats.difference_ends(more, n)
    return Found(
        bounds=(p.by, None) if isinstance(p, Better) else (None, 0.0 - p.by),
        n=n,
        effect=more / n,
        low=low,
        high=high,
        shows=Fails.shows,
        rates={p.of[0]: (sides[0], n), p.than: (sides[1], n)},
    )


def _steps(case: Case, p: Better | Worse, seeds: Sequence[int]) -> Found:
    """The paired difference of log steps to a loss, as a ratio: fewer are better."""
    one, two = (case.matrix(label, seeds)[:, 0] for label in (p.of[0], p.than))
    never = int((~np.isfinite(one) | ~np.isfinite(two)).sum())
    if never:
        remedy = "a loss that every seed reaches, or a claim about how many do, on fresh seeds"
        reason = f"{never} of {len(seeds)} seeds never reached the loss"
        return Found(n=len(seeds), reason=reason, remedy=remedy)
    apart = stats.paired_mean(np.log(np.maximum(one, 1)), np.log(np.maximum(two, 1)))
    bounds = (None, 0.0) if isinstance(p, Better) else (0.0, None)
    return _estimated(apart, bounds, case, is_log=True, shows=Ratio.shows)


def _growth(case: Case, p: Grows, units: Sequence[int]) -> Found:
    """By how much its lead rises where the factor doubles."""
    lead = case.matrix(p.of[0], units) - case.matrix(p.than, units)
    lead = -lead if case.better == "lower" else lead
    return _estimated(stats.growth([s.x for s in case.spots], lead), (0.0, None), case)


def _exponent(case: Case, p: Exponent, units: Sequence[int]) -> Found:
    """b of value ∝ level^b."""
    levels = [spot.x for spot in case.spots]
    return _estimated(stats.exponent(levels, case.matrix(p.of[0], units)), p.between, case)


def _crossing(case: Case, p: Crosses, units: Sequence[int]) -> Found:
    """Where the first changes from lower to higher; of times and counts by their log ratio."""
    one, two = (case.matrix(label, units) for label in p.of)
    lead = one - two if case.repeats == "seeds" else np.log(one / two)
    floor, levels = case.floor(), [spot.x for spot in case.spots]
    if math.isnan(floor):
        return Found(n=len(units), reason="not timed beside a copy of itself")
    found = stats.crossing(levels, lead, floor, exact=case.is_fact)
    sure = [sign for sign in found.signs if sign]
    # On one side at every level, as far as it had to be looked at.
    is_shown_never = len(set(found.signs)) == 1 and max(levels) >= (p.until or 0.0) and sure
    said = UNDECIDED
    if found.changes == 1:
        said = SUPPORTED if sure[0] < 0 else REFUTED
    elif is_shown_never:
        said = REFUTED
    return Found(
        bounds=(None, p.until),
        n=len(units),
        effect=found.at,
        low=0.0 if math.isnan(found.low) else found.low,  # it may be nowhere
        high=found.high,
        is_fact=said == REFUTED or case.is_fact,
        said=said,
    )


def _ratio(case: Case, p: Ratio, units: Sequence[int]) -> Found:
    """The mean log ratio to the other; of something that is a ratio itself, its own logarithm."""
    low, high = (None if end is None else math.log(end) if end > 0 else -math.inf
                 for end in p.between)  # fmt: skip
    spot = case.spots[0]
    if case.is_timed:
        return _time_ratio(case, p, spot, (low, high))
    one = case.matrix(p.of[0], units)[:, 0]
    two = np.ones_like(one) if p.than is None else case.matrix(p.than, units)[:, 0]
    if not ((one > 0) & (two > 0)).all():
        raise ValueError("a value is not positive: it has no logarithm")
    return _estimated(stats.mean_of(np.log(one / two)), (low, high), case, is_log=True)


def _time_ratio(case: Case, p: Ratio, spot: Spot, bounds: stats.Bounds) -> Found:
    """Log ratios by process, never narrower than the A/A interval of the session; without another
    side, to what the session has timed it beside."""
    logs, floor = case.timed_side(p.of[0], spot)
    if p.than is not None:
        other, other_floor = case.timed_side(p.than, spot)
        n = min(len(logs), len(other))
        logs = [a - b for a, b in zip(logs[:n], other[:n], strict=True)]
        floor = float(np.maximum(floor, other_floor))  # not known where one of them is not
    if not logs or math.isnan(floor):
        return Found(n=len(logs), reason="not timed beside a copy of itself")
    ratio, low, high = map(math.log, stats.ratio_ends(logs, floor))
    sd = stats.mean_of(logs, scale=1.0).sd
    return Found(bounds, len(logs), ratio, low, high, sd, is_log=True)


def _exact(case: Case, p: Exact, units: Sequence[int]) -> Found:
    """Every draw within rounding, and the positive control in none."""
    control = case
    if p.fails_at is not None:
        control = replace(case, prediction=p.model_copy(update={"at": p.fails_at}))
    own = case.matrix(p.of[0], units).ravel()
    other = control.matrix(p.fails_for or p.of[0], units).ravel()
    bounds = p.value - p.within, p.value + p.within
    if np.isnan(own).any() or np.isnan(other).any():
        return Found(bounds, len(units), reason="a seed has no value, of it or its control")
    off = np.abs(own - p.value)
    furthest = float(own[np.argmax(off)])
    holds = bool((off <= p.within).all())
    is_shown = bool((np.abs(other - p.value) > p.within).all())
    said = SUPPORTED if holds and is_shown else REFUTED
    return Found(bounds, len(units), furthest, low=furthest, high=furthest, is_fact=True, said=said)


KINDS: dict[type, Callable[[Case, Any, Sequence[int]], Found]] = {
    Better: _level,
    Worse: _level,
    Equal: _level,
    Fails: _rate,
    Grows: _growth,
    Exponent: _exponent,
    Crosses: _crossing,
    Ratio: _ratio,
    Exact: _exact,
}
