"""Each word of the vocabulary of predictions as a test on the first seeds of a question.

    Tested.supports: p against the prediction's being false;  refutes: against its being true

A prediction of a level takes the mean of paired differences; one of a basin the share of seeds past
its threshold, where a seed that failed is not past it. A failed seed makes a level untellable.

Times are repeated by processes, which stand where seeds do; a count is what it is.

A level is supported where its two-sided interval lies inside what is predicted, and refuted where
it lies outside: p is twice that of the nearer end.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import stats
from analysis.load import Loaded, crossing
from analysis.scores import FINE, curves, errors_by_item, outcomes, scores, steps_to_reach
from analysis.speed import log_ratios, log_seconds, places
from analysis.stats import Estimate, Tested, TwoLucks

STEPS = "steps_to_reach"  # a level of validation loss, told by `at: {loss: …}`
PROCESSES, NOTHING = "processes", "nothing"  # what repeats a quantity, where seeds do not
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Spot:
    """One place that a prediction looks at."""

    across: dict[str, str]
    at: dict[str, Any]
    x: float = math.nan
    """How far along what it goes along."""


@dataclass(frozen=True)
class Predicted:
    """One prediction of one question, and the readings that bear on it."""

    loaded: Loaded
    ablation: str
    plain: dict[str, Any]
    """As the plan tells it."""
    _held: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What was looked up once: every look asks for it again."""

    @property
    def entry(self) -> dict[str, Any]:
        return self.loaded.ablations[self.ablation]

    @property
    def is_basin(self) -> bool:
        return self.plain["kind"] == "basin"

    @property
    def repeats(self) -> str:
        known = self.entry["metrics"].get(self.plain["metric"], {})
        return str(known.get("repeats", "seeds"))

    @property
    def is_timed(self) -> bool:
        return self.repeats == PROCESSES

    @property
    def is_counted(self) -> bool:
        return self.repeats == NOTHING

    @property
    def better(self) -> str:
        known = self.entry["metrics"].get(self.plain["metric"])
        return known["better"] if known else "lower"

    @property
    def labels(self) -> list[str]:
        """Every variant that it looks at."""
        named = [*self.plain["of"], self.plain["than"], self.plain["fails_for"]]
        if self.plain["word"] == "worst":
            named += [cell["label"] for cell in self.entry["cells"]]
        return list(dict.fromkeys(name for name in named if name is not None))

    @cached_property
    def crossings(self) -> list[dict[str, str]]:
        """The levels that it looks at: along its factor, or at the one place it names."""
        every = {crossing(cell["across"]): cell["across"] for cell in self.entry["cells"]}
        wanted = self.plain["across"]
        return [a for a in every.values() if all(a.get(k) == v for k, v in wanted.items())]

    @cached_property
    def spots(self) -> list[Spot]:
        """Every place that it looks at: along a factor or a coordinate, or one of each level."""
        along, at, since = self.plain["along"], self.plain["at"], self.plain.get("since")
        if along is None:
            return [Spot(across, at) for across in self.crossings]
        found = [
            Spot(across, at if along in across else {**at, along: x}, x)
            for across in self.crossings
            for x in ([float(across[along])] if along in across else self._coordinates(across))
        ]
        return sorted(
            (spot for spot in found if since is None or spot.x >= since), key=lambda s: s.x
        )

    def _coordinates(self, across: dict[str, str]) -> list[float]:
        """Where along a coordinate all that it compares was read."""
        along = self.plain["along"]
        found = []
        for label in self.labels:
            if self.is_timed:
                groups = self._places(label, across, self.plain["at"])
                read = {g[0]["at"][along] for g in groups if along in g[0]["at"] and log_seconds(g)}
            else:
                read = self._read_at(label, across, along)
            found.append(read)
        return sorted(set.intersection(*found)) if found else []

    def _read_at(self, label: str, across: dict[str, str], along: str) -> set[float]:
        frame = self.loaded.readings
        if along not in frame:
            return set()
        mine = frame[
            (frame["ablation"] == self.ablation)
            & (frame["label"] == label)
            & (frame["across"] == crossing(across))
            & (frame["metric"] == self.plain["metric"])
        ]
        return set(mine[along].dropna())

    def _places(
        self, label: str, across: dict[str, str], at: dict[str, Any]
    ) -> list[list[dict[str, Any]]]:
        return places(self.loaded, self.ablation, label, crossing(across), self.plain["metric"], at)

    def timed_ratios(self, spot: Spot) -> tuple[list[float], float]:
        """Log ratios of times by process, and the noise floor; without another side, to what the
        session has timed them beside."""
        one, floor = self._timed_side(self.plain["of"][0], spot)
        if self.plain["than"] is None:
            return one, floor
        two, other = self._timed_side(self.plain["than"], spot)
        n = min(len(one), len(two))
        logs = [a - b for a, b in zip(one[:n], two[:n], strict=True)]
        return logs, float(np.maximum(floor, other))  # not known where one of them is not

    @property
    def floor(self) -> float:
        """How far two copies of one model are apart at the places that it looks at; of what is not
        timed 0, and NaN where there was no second copy."""
        if not self.is_timed:
            return 0.0
        sides = [self._timed_side(label, spot)[1] for label in self.labels for spot in self.spots]
        return float(np.max(sides)) if sides else math.nan

    def _timed_side(self, label: str, spot: Spot) -> tuple[list[float], float]:
        """One variant's log ratios to the reference's times."""
        found = self._places(label, spot.across, spot.at)
        # Timed at several places, and it does not say which: nothing is told.
        return log_ratios(found[0]) if len(found) == 1 else ([], math.nan)

    def _sessions(self) -> set[str]:
        """In which sessions the times that it compares were taken."""
        return {
            str(row["session"]).partition(".")[0]
            for label in self.labels
            for spot in self.spots
            for group in self._places(label, spot.across, spot.at)
            for row in group[:1]
        }

    def ended(self) -> set[Any]:
        """Seeds of which every trial that it looks at has ended; of times, processes.

        Processes of two sessions have nothing in common but their number.
        """
        if self.is_timed and self.plain["word"] != "ratio" and len(self._sessions()) > 1:
            return set()
        if self.is_timed:
            held = [len(self.values(label, s)) for label in self.labels for s in self.spots]
            return set(range(min(held, default=0)))
        where = [(label, crossing(s.across)) for label in self.labels for s in self.spots]
        found = [set(outcomes(self.loaded, self.ablation, *place)) for place in where]
        return set.intersection(*found) if found else set()

    def values(self, label: str, spot: Spot) -> dict[Any, float]:
        key = "values", label, crossing(spot.across), spot.x
        if key not in self._held:
            self._held[key] = self._values(label, spot)
        return dict(self._held[key])

    def _values(self, label: str, spot: Spot) -> dict[Any, float]:
        if self.is_timed:
            found = self._places(label, spot.across, spot.at)
            logs = log_seconds(found[0]) if len(found) == 1 else []
            return {process: math.exp(log) for process, log in enumerate(logs)}
        across = crossing(spot.across)
        if self.plain["metric"] == STEPS:
            level = float(self.plain["at"]["loss"])
            return steps_to_reach(self.loaded, self.ablation, label, across, level)
        place = (self.ablation, label, across, self.plain["metric"], self.plain["split"])
        return scores(self.loaded, *place, spot.at)

    def pair(self, label: str, other: str, spot: Spot, seeds: Sequence[Any]) -> Pair:
        """Both sides over these seeds; NaN where one has no score."""
        sides = (self.values(label, spot), self.values(other, spot))
        one, two = (np.array([side.get(s, math.nan) for s in seeds]) for side in sides)
        return one, two

    def known(self, estimate: Estimate) -> Estimate:
        """A count as it is: no second look would find another."""
        return stats.fact(estimate.value) if self.is_counted else estimate

    def apart(
        self, label: str, other: str, spot: Spot, seeds: Sequence[Any]
    ) -> Estimate | TwoLucks:
        """The mean difference over these seeds; where errors by item are known, for other test
        items as well as for other seeds."""
        return stats.widened(
            self._apart(label, other, spot, seeds), self._pace_error(label, other, spot, seeds)
        )

    def _pace_error(self, label: str, other: str, spot: Spot, seeds: Sequence[Any]) -> float:
        """What not knowing the time of a step exactly adds where arms get equal time.

        A step more or less moves a score as much as the last third of training did on average: with
        a rate that falls to zero that is too much, rather than too little.
        """
        found = [0.0]
        for pace in self.entry["paces"]:
            if pace["label"] not in (label, other) or pace["across"] != spot.across:
                continue
            held = curves(self.loaded, self.ablation, pace["label"], crossing(spot.across))
            ours = self.values(pace["label"], spot)
            both = [seed for seed in seeds if seed in held and seed in ours]
            if both and pace["error"] > 0:
                shift = abs(np.mean([_late(held[s]) / held[s].iloc[-1] * ours[s] for s in both]))
                found.append(float(shift / math.log(1.5) * pace["error"]))
        return math.hypot(*found)

    def _apart(
        self, label: str, other: str, spot: Spot, seeds: Sequence[Any]
    ) -> Estimate | TwoLucks:
        estimate = self.known(stats.paired_mean(*self.pair(label, other, spot, seeds)))
        has_items = self.repeats == "seeds" and not self.plain["at"]
        if not estimate.error > 0 or not has_items or self.plain["split"] != "test":
            return estimate
        sides = [self._items(name, spot.across) for name in (label, other)]
        held = [side[seed] for side in sides for seed in seeds if seed in side]
        if len(held) < 2 * len(seeds) or len({len(errors) for errors in held}) != 1:
            return estimate
        one, two = np.array(held[: len(seeds)]), np.array(held[len(seeds) :])
        return stats.two_lucks(one - two)

    def _items(self, label: str, across: dict[str, str]) -> dict[Any, NDArray[np.float64]]:
        key = "items", label, crossing(across)
        if key not in self._held:
            place = self.ablation, label, crossing(across)
            self._held[key] = errors_by_item(self.loaded, *place, self.plain["metric"])
        found: dict[Any, NDArray[np.float64]] = self._held[key]
        return found

    def difference(self, seeds: Sequence[Any]) -> Estimate | TwoLucks:
        """Of the first variant from the one it is compared with, where there is such a one."""
        if self.plain["than"] is None or len(self.spots) != 1 or self.plain["metric"] == STEPS:
            return Estimate(0)
        return self.apart(self.plain["of"][0], self.plain["than"], self.spots[0], seeds)

    def shown(self, seeds: Sequence[Any], level: float) -> Measured:
        """What was measured, as a number with its interval; NaN where that is no one number."""
        word = self.plain["word"]
        if word in SHOWN and len(seeds) and len(self.spots):
            with contextlib.suppress(ValueError):  # a value without a logarithm, too few levels
                return SHOWN[word](self, seeds, level)
        estimate = self.difference(seeds)
        return Measured("difference", estimate.value, *_ends(self, estimate, level), estimate.n)

    @property
    def is_equality(self) -> bool:
        return self.plain["word"] == "equal"

    def distances(self, estimate: Estimate) -> tuple[float, float]:
        """How far the truth may lie from the nearest margin, at most and at least, at 80 %."""
        low, high = estimate.ends(stats.LIMIT)
        if self.is_equality:
            off = abs(self.plain["within"] - abs(estimate.value))
        else:
            worse = 1 if self.better == "lower" else -1
            lead = worse * estimate.value * (1 if self.plain["word"] == "worse" else -1)
            off = abs(lead - self.plain["by"])
        half = (high - low) / 2
        return off + half, max(0.0, off - half)

    def has_gaps(self, seeds: Sequence[Any]) -> bool:
        """Whether a seed of a variant that it looks at has no score."""
        return any(
            not set(seeds) <= self.values(label, spot).keys()
            for label in self.labels
            for spot in self.spots
        )

    def still_moves(self, seeds: Sequence[Any]) -> float:
        """How much of its margin the difference moved over the last third of training.

        Along the way there is only the validation loss; a share of the control's loss stands for
        the same share of its score. NaN where that cannot be told.
        """
        label, other = self.plain["of"][0], self.plain["than"]
        moved = [math.nan]
        for spot in self.spots:
            own, control = (
                curves(self.loaded, self.ablation, name, crossing(spot.across))
                for name in (label, other)
            )
            held = self.values(other, spot)
            both = [seed for seed in seeds if seed in own and seed in control and seed in held]
            if not both:
                continue
            shift = np.mean([_late(own[seed]) - _late(control[seed]) for seed in both])
            loss = np.mean([control[seed].iloc[-1] for seed in both])
            score = abs(np.mean([held[seed] for seed in both]))
            if self.better == "higher" and score <= 1:  # of a share, what is missed
                score = 1 - score
            if loss > 0 and score > 0:
                moved.append(float(abs(shift) / loss * score / self.plain["within"]))
        return float(np.nanmax(moved)) if len(moved) > 1 else math.nan

    def past(self, label: str, spot: Spot, seeds: Sequence[Any]) -> list[bool]:
        """Whether each seed ended well, and past the threshold where there is one."""
        ended = outcomes(self.loaded, self.ablation, label, crossing(spot.across))
        held = self.values(label, spot)
        limit, sign = self.plain["threshold"], 1 if self.better == "higher" else -1
        if limit is None:
            return [ended.get(seed) == FINE for seed in seeds]
        return [seed in held and sign * held[seed] >= sign * limit for seed in seeds]

    def test(self, seeds: Sequence[Any]) -> Tested:
        """What these seeds say of it."""
        try:
            return WORDS[self.plain["word"]](self, seeds)
        except ValueError:  # a value that has no logarithm, or too few levels for a slope
            return Tested()


@dataclass(frozen=True)
class Measured:
    """What was measured for a prediction: of what kind, how large, and between which ends."""

    kind: str
    effect: float
    low: float
    high: float
    n: int


def _ends(p: Predicted, estimate: Estimate | TwoLucks, level: float) -> tuple[float, float]:
    """Of a count there are none to tell."""
    is_known = not p.is_counted and estimate.error > 0
    return estimate.ends(level) if is_known else (math.nan, math.nan)


def _late(curve: pd.Series) -> float:
    """How far a curve moves over the last third of its steps."""
    before = curve[curve.index <= curve.index[-1] * 2 / 3]
    return float(curve.iloc[-1] - (before.iloc[-1] if len(before) else curve.iloc[0]))


def joint(tested: Sequence[Tested]) -> Tested:
    """All of several predictions: each must be shown, and any one that is refuted refutes them."""
    if not tested or any(math.isnan(each.p) for each in tested):
        return Tested()
    refutes = min(1.0, len(tested) * min(each.refutes for each in tested))
    return Tested(max(each.supports for each in tested), refutes)


def _better(p: Predicted, seeds: Sequence[Any]) -> Tested:
    return _leads(p, p.plain["of"][0], p.plain["than"], seeds, p.plain["by"])


def _worse(p: Predicted, seeds: Sequence[Any]) -> Tested:
    return _leads(p, p.plain["than"], p.plain["of"][0], seeds, p.plain["by"])


def _leads(p: Predicted, label: str, other: str, seeds: Sequence[Any], by: float) -> Tested:
    """At every level that it looks at."""
    found = []
    for spot in p.spots:
        if p.is_basin:
            one, two = p.past(label, spot, seeds), p.past(other, spot, seeds)
            found.append(stats.directed(stats.basin(one, two).tails, "higher"))
        elif p.plain["metric"] == STEPS:
            ranked = stats.signed_rank(*p.pair(label, other, spot, seeds))
            found.append(_twice(stats.directed(ranked.tails, "lower")))
        else:
            apart = p.apart(label, other, spot, seeds)
            test = stats.better_by if by >= 0 else stats.not_worse_by
            found.append(_twice(test(apart, abs(by), p.better)))
    return joint(found)


def _equal(p: Predicted, seeds: Sequence[Any]) -> Tested:
    label, other = p.plain["of"][0], p.plain["than"]
    apart = [p.apart(label, other, spot, seeds) for spot in p.spots]
    found = [stats.equal_within(each, p.plain["within"]) for each in apart]
    return joint([Tested(_twice(each).supports, each.refutes) for each in found])


def _worst(p: Predicted, seeds: Sequence[Any]) -> Tested:
    label = p.plain["of"][0]
    others = [other for other in p.labels if other != label]
    return joint([_leads(p, other, label, seeds, 0.0) for other in others])


def _ordered(p: Predicted, seeds: Sequence[Any]) -> Tested:
    labels = p.plain["of"]
    return joint([_leads(p, one, next_, seeds, 0.0) for one, next_ in pairwise(labels)])


def _fails(p: Predicted, seeds: Sequence[Any]) -> Tested:
    found = []
    for spot in p.spots:
        one = p.past(p.plain["of"][0], spot, seeds)
        two = p.past(p.plain["than"], spot, seeds)
        found.append(stats.directed(stats.basin(one, two).tails, "lower"))
    return joint(found)


def _trains(p: Predicted, seeds: Sequence[Any]) -> Tested:
    past = [p.past(p.plain["of"][0], spot, seeds) for spot in p.spots]
    tails = [stats.share_tails(sum(each), len(each), 0.5) for each in past]
    return joint([Tested(each.more, each.less) for each in tails])


def _along(p: Predicted, label: str, seeds: Sequence[Any]) -> NDArray[np.float64]:
    """S L: a variant's values, by seed and place along its factor."""
    held = [p.values(label, spot) for spot in p.spots]
    return np.array([[each.get(seed, math.nan) for each in held] for seed in seeds])


def _levels(p: Predicted) -> list[float]:
    return [spot.x for spot in p.spots]


def _growth(p: Predicted, seeds: Sequence[Any]) -> Estimate:
    lead = _along(p, p.plain["of"][0], seeds) - _along(p, p.plain["than"], seeds)
    return p.known(stats.growth(_levels(p), -lead if p.better == "lower" else lead))


def _grows(p: Predicted, seeds: Sequence[Any]) -> Tested:
    return _more(_growth(p, seeds))


def _more(estimate: Estimate) -> Tested:
    tails = estimate.tails()
    return _twice(Tested(tails.more, tails.less))


def _twice(tested: Tested) -> Tested:
    """Of the two-sided interval; what is not known stays so."""
    doubled = np.minimum(1.0, [2 * tested.supports, 2 * tested.refutes])
    return Tested(*map(float, doubled))


def _power(p: Predicted, seeds: Sequence[Any]) -> Estimate:
    return p.known(stats.exponent(_levels(p), _along(p, p.plain["of"][0], seeds)))


def _exponent(p: Predicted, seeds: Sequence[Any]) -> Tested:
    return _inside(_power(p, seeds), *p.plain["between"])


def _inside(estimate: Estimate, low: float | None, high: float | None) -> Tested:
    """Within its bounds, of which one may be open."""
    below = stats.Tails(0.0, 1.0) if low is None else estimate.tails(low)
    above = stats.Tails(1.0, 0.0) if high is None else estimate.tails(high)
    if math.isnan(below.more) or math.isnan(above.less):
        return Tested()
    return _twice(Tested(max(below.more, above.less), min(below.less, above.more)))


def _leads_along(p: Predicted, seeds: Sequence[Any]) -> NDArray[np.float64]:
    """S L: how far the first is above the second; of times and counts the logarithm."""
    one, two = (_along(p, label, seeds) for label in p.plain["of"])
    return one - two if p.repeats == "seeds" else np.log(one / two)


def _crosses(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """The first is lower before and higher after, or on one side throughout.

    Times count as apart where they are so by more than two copies of one model.
    """
    leads, floor = _leads_along(p, seeds), p.floor
    if math.isnan(floor):
        return Tested()
    columns = [p.known(stats.mean_of(column)) for column in leads.T]
    above = [each.tails(floor).more for each in columns]
    below = [each.tails(-floor).less for each in columns]
    if len(columns) < 2 or any(math.isnan(p) for p in (*above, *below)):
        return Tested()
    # Below at one level, above at a later one: the best such pair, of so many that are looked at.
    pairs = [max(below[i], above[j]) for i in range(len(below)) for j in range(i + 1, len(above))]
    both = min(1.0, len(columns) * min(pairs))
    until = p.plain.get("until")
    is_short = until is not None and max(_levels(p)) < until
    return Tested(both, 1.0 if is_short else min(1.0, 2 * min(max(above), max(below))))


def _ratio(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """Of values that are never 0 or below; of times, each seed is a process that timed both."""
    if p.is_timed:
        return joint([_timed(p, spot, seeds) for spot in p.spots])
    low, high = map(_log, p.plain["between"])
    return joint([_inside(_log_ratio(p, spot, seeds), low, high) for spot in p.spots])


def _log_ratio(p: Predicted, spot: Spot, seeds: Sequence[Any]) -> Estimate:
    """Of the first to the other; of something that is a ratio itself, its own logarithm."""
    if p.is_timed:
        return stats.mean_of(p.timed_ratios(spot)[0][: len(seeds)], scale=1.0)
    label, other = p.plain["of"][0], p.plain["than"]
    one, two = p.pair(label, label if other is None else other, spot, seeds)
    two = np.ones_like(one) if other is None else two
    if not ((one > 0) & (two > 0)).all():
        raise ValueError("a value is not positive: it has no logarithm")
    return p.known(stats.mean_of(np.log(one / two)))


def _timed(p: Predicted, spot: Spot, processes: Sequence[Any]) -> Tested:
    """Past its bounds by more than two copies of one model differ."""
    estimate, floor = _log_ratio(p, spot, processes), p.timed_ratios(spot)[1]
    low, high = map(_log, p.plain["between"])

    def within(by: float) -> Tested:
        """With both ends moved inwards."""
        ends = None if low is None else low + by, None if high is None else high - by
        return _inside(estimate, *ends)

    return Tested() if math.isnan(floor) else Tested(within(floor).supports, within(-floor).refutes)


def _log(end: float | None) -> float | None:
    return None if end is None else math.log(end)


def _shown_ratio(p: Predicted, seeds: Sequence[Any], level: float) -> Measured:
    if len(p.spots) != 1:
        return Measured("ratio", math.nan, math.nan, math.nan, len(seeds))
    estimate = _log_ratio(p, p.spots[0], seeds)
    effect, low, high = map(math.exp, (estimate.value, *_ends(p, estimate, level)))
    return Measured("ratio", effect, low, high, estimate.n)


def _shown_power(p: Predicted, seeds: Sequence[Any], level: float) -> Measured:
    estimate = _power(p, seeds)
    return Measured("exponent", estimate.value, *_ends(p, estimate, level), estimate.n)


def _shown_growth(p: Predicted, seeds: Sequence[Any], level: float) -> Measured:
    estimate = _growth(p, seeds)
    return Measured(
        "growth with each doubling", estimate.value, *_ends(p, estimate, level), estimate.n
    )


def _shown_crossing(p: Predicted, seeds: Sequence[Any], level: float) -> Measured:
    found = stats.crossing(_levels(p), _leads_along(p, seeds), level)
    return Measured("crossing", found.at, found.low, found.high, len(seeds))


def _shown_exact(p: Predicted, seeds: Sequence[Any], level: float) -> Measured:
    """The value that is furthest from what it should be."""
    own = _along(p, p.plain["of"][0], seeds).ravel()
    furthest = own[np.argmax(np.abs(own - p.plain["value"]))]
    return Measured("value", float(furthest), math.nan, math.nan, len(seeds))


SHOWN: dict[str, Callable[[Predicted, Sequence[Any], float], Measured]] = {
    "ratio": _shown_ratio,
    "exponent": _shown_power,
    "grows": _shown_growth,
    "crosses": _shown_crossing,
    "exact": _shown_exact,
}


def replace_at(p: Predicted) -> Predicted:
    """The same prediction where it must not hold."""
    return Predicted(p.loaded, p.ablation, {**p.plain, "at": p.plain["fails_at"]})


def _exact(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """Every draw within rounding, and the positive control in none: a matter of fact, not luck."""

    def off(label: str) -> NDArray[np.float64]:
        return np.abs(_along(p, label, seeds) - p.plain["value"])

    own = off(p.plain["of"][0])
    elsewhere = p if p.plain.get("fails_at") is None else replace_at(p)
    label = p.plain["fails_for"] or p.plain["of"][0]
    other = np.abs(_along(elsewhere, label, seeds) - p.plain["value"])
    if np.isnan(own).any() or np.isnan(other).any():
        return Tested()
    holds = bool((own <= p.plain["within"]).all() and (other > p.plain["within"]).all())
    return Tested(float(not holds), float(holds))


WORDS: dict[str, Callable[[Predicted, Sequence[Any]], Tested]] = {
    "better": _better,
    "worse": _worse,
    "equal": _equal,
    "worst": _worst,
    "ordered": _ordered,
    "fails": _fails,
    "trains": _trains,
    "grows": _grows,
    "exponent": _exponent,
    "crosses": _crosses,
    "ratio": _ratio,
    "exact": _exact,
}
