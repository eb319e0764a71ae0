"""Each word of the vocabulary of predictions as a test on the first seeds of a question.

    Tested.supports: p against the prediction's being false;  refutes: against its being true

A prediction of a level takes the mean of paired differences; one of a basin the share of seeds past
its threshold, where a seed that failed is not past it. A failed seed makes a level untellable.

A level is supported where its two-sided interval lies inside what is predicted, and refuted where
it lies outside: p is twice that of the nearer end.
"""

from __future__ import annotations

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
from analysis.speed import step_ratios
from analysis.stats import Estimate, Tested, TwoLucks

TIMES = ("step_time",)  # which processes repeat, not seeds
STEPS = "steps_to_reach"  # a level of validation loss, told by `at: {loss: …}`
Pair = tuple[NDArray[np.float64], NDArray[np.float64]]


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
    def is_timed(self) -> bool:
        return self.plain["metric"] in TIMES

    def step_ratios(self, across: dict[str, str]) -> tuple[list[float], float]:
        """Log ratios of times by process, and the noise floor."""
        label, where = self.plain["of"][0], self.plain["at"]
        return step_ratios(self.loaded, self.ablation, label, crossing(across), where)

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

    def ended(self) -> set[Any]:
        """Seeds of which every trial that it looks at has ended; of times, processes."""
        if self.is_timed:
            return set(range(min(len(self.step_ratios(a)[0]) for a in self.crossings)))
        places = [(label, crossing(a)) for label in self.labels for a in self.crossings]
        found = [set(outcomes(self.loaded, self.ablation, *place)) for place in places]
        return set.intersection(*found) if found else set()

    def values(self, label: str, across: dict[str, str]) -> dict[Any, float]:
        key = "values", label, crossing(across)
        if key not in self._held:
            self._held[key] = self._values(label, across)
        return dict(self._held[key])

    def _values(self, label: str, across: dict[str, str]) -> dict[Any, float]:
        if self.plain["metric"] == STEPS:
            level = float(self.plain["at"]["loss"])
            return steps_to_reach(self.loaded, self.ablation, label, crossing(across), level)
        place = (self.ablation, label, crossing(across), self.plain["metric"], self.plain["split"])
        return scores(self.loaded, *place, self.plain["at"])

    def pair(self, label: str, other: str, across: dict[str, str], seeds: Sequence[Any]) -> Pair:
        """Both sides over these seeds; NaN where one has no score."""
        sides = (self.values(label, across), self.values(other, across))
        one, two = (np.array([side.get(s, math.nan) for s in seeds]) for side in sides)
        return one, two

    def apart(
        self, label: str, other: str, across: dict[str, str], seeds: Sequence[Any]
    ) -> Estimate | TwoLucks:
        """The mean difference over these seeds; where errors by item are known, for other test
        items as well as for other seeds."""
        estimate = stats.paired_mean(*self.pair(label, other, across, seeds))
        if not estimate.error > 0 or self.plain["at"] or self.plain["split"] != "test":
            return estimate
        sides = [self._items(name, across) for name in (label, other)]
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
        if self.plain["than"] is None or len(self.crossings) != 1 or self.plain["metric"] == STEPS:
            return Estimate(0)
        if self.is_timed:
            return stats.mean_of(self.step_ratios(self.crossings[0])[0][: len(seeds)], scale=1.0)
        return self.apart(self.plain["of"][0], self.plain["than"], self.crossings[0], seeds)

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
            not set(seeds) <= self.values(label, across).keys()
            for label in self.labels
            for across in self.crossings
        )

    def still_moves(self, seeds: Sequence[Any]) -> float:
        """How much of its margin the difference moved over the last third of training.

        Along the way there is only the validation loss; a share of the control's loss stands for
        the same share of its score. NaN where that cannot be told.
        """
        label, other = self.plain["of"][0], self.plain["than"]
        moved = [math.nan]
        for across in self.crossings:
            own, control = (
                curves(self.loaded, self.ablation, name, crossing(across))
                for name in (label, other)
            )
            held = self.values(other, across)
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

    def past(self, label: str, across: dict[str, str], seeds: Sequence[Any]) -> list[bool]:
        """Whether each seed ended well, and past the threshold where there is one."""
        ended = outcomes(self.loaded, self.ablation, label, crossing(across))
        held = self.values(label, across)
        limit, sign = self.plain["threshold"], 1 if self.better == "higher" else -1
        if limit is None:
            return [ended.get(seed) == FINE for seed in seeds]
        return [seed in held and sign * held[seed] >= sign * limit for seed in seeds]

    def test(self, seeds: Sequence[Any]) -> Tested:
        """What these seeds say of it."""
        return WORDS[self.plain["word"]](self, seeds)


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
    for across in p.crossings:
        if p.is_basin:
            one, two = p.past(label, across, seeds), p.past(other, across, seeds)
            found.append(stats.directed(stats.basin(one, two).tails, "higher"))
        elif p.plain["metric"] == STEPS:
            ranked = stats.signed_rank(*p.pair(label, other, across, seeds))
            found.append(_twice(stats.directed(ranked.tails, "lower")))
        else:
            apart = p.apart(label, other, across, seeds)
            test = stats.better_by if by >= 0 else stats.not_worse_by
            found.append(_twice(test(apart, abs(by), p.better)))
    return joint(found)


def _equal(p: Predicted, seeds: Sequence[Any]) -> Tested:
    label, other = p.plain["of"][0], p.plain["than"]
    apart = [p.apart(label, other, across, seeds) for across in p.crossings]
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
    for across in p.crossings:
        one = p.past(p.plain["of"][0], across, seeds)
        two = p.past(p.plain["than"], across, seeds)
        found.append(stats.directed(stats.basin(one, two).tails, "lower"))
    return joint(found)


def _trains(p: Predicted, seeds: Sequence[Any]) -> Tested:
    past = [p.past(p.plain["of"][0], across, seeds) for across in p.crossings]
    tails = [stats.share_tails(sum(each), len(each), 0.5) for each in past]
    return joint([Tested(each.more, each.less) for each in tails])


def _along(p: Predicted, label: str, seeds: Sequence[Any]) -> NDArray[np.float64]:
    """S L: a variant's values, by seed and level of its factor."""
    held = [p.values(label, across) for across in p.crossings]
    return np.array([[each.get(seed, math.nan) for each in held] for seed in seeds])


def _levels(p: Predicted) -> list[float]:
    return [float(across[p.plain["along"]]) for across in p.crossings]


def _grows(p: Predicted, seeds: Sequence[Any]) -> Tested:
    lead = _along(p, p.plain["of"][0], seeds) - _along(p, p.plain["than"], seeds)
    lead = -lead if p.better == "lower" else lead
    return _more(stats.growth(_levels(p), lead))


def _more(estimate: Estimate) -> Tested:
    tails = estimate.tails()
    return _twice(Tested(tails.more, tails.less))


def _twice(tested: Tested) -> Tested:
    """Of the two-sided interval; what is not known stays so."""
    doubled = np.minimum(1.0, [2 * tested.supports, 2 * tested.refutes])
    return Tested(*map(float, doubled))


def _exponent(p: Predicted, seeds: Sequence[Any]) -> Tested:
    return _inside(stats.exponent(_levels(p), _along(p, p.plain["of"][0], seeds)), p)


def _inside(estimate: Estimate, p: Predicted) -> Tested:
    """Within its bounds, of which one may be open."""
    low, high = p.plain["between"]
    below = stats.Tails(0.0, 1.0) if low is None else estimate.tails(low)
    above = stats.Tails(1.0, 0.0) if high is None else estimate.tails(high)
    if math.isnan(below.more) or math.isnan(above.less):
        return Tested()
    return _twice(Tested(max(below.more, above.less), min(below.less, above.more)))


def _crosses(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """Ahead at one level and behind at another, or on one side throughout."""
    one, two = p.plain["of"]
    lead = _along(p, one, seeds) - _along(p, two, seeds)
    tails = [stats.mean_of(column).tails() for column in lead.T]
    if not tails or any(math.isnan(each.more) for each in tails):
        return Tested()
    more, less = [each.more for each in tails], [each.less for each in tails]
    both = min(1.0, len(tails) * max(min(more), min(less)))
    return Tested(both, min(1.0, 2 * min(max(more), max(less))))


def _ratio(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """Of values that are never 0 or below; of times, each seed is a process that timed both."""
    if p.is_timed:
        return joint([_timed(p, across, seeds) for across in p.crossings])
    low, high = p.plain["between"]
    found = []
    for across in p.crossings:
        one, two = p.pair(p.plain["of"][0], p.plain["than"], across, seeds)
        if not ((one > 0) & (two > 0)).all():
            return Tested()
        logs = Predicted(p.loaded, p.ablation, {**p.plain, "between": (_log(low), _log(high))})
        found.append(_inside(stats.mean_of(np.log(one / two)), logs))
    return joint(found)


def _timed(p: Predicted, across: dict[str, str], processes: Sequence[Any]) -> Tested:
    """Past its bounds by more than two copies of one model differ."""
    logs, floor = p.step_ratios(across)
    estimate = stats.mean_of(logs[: len(processes)], scale=1.0)
    low, high = map(_log, p.plain["between"])

    def within(by: float) -> Tested:
        """With both ends moved inwards."""
        ends = None if low is None else low + by, None if high is None else high - by
        return _inside(estimate, Predicted(p.loaded, p.ablation, {**p.plain, "between": ends}))

    return Tested() if math.isnan(floor) else Tested(within(floor).supports, within(-floor).refutes)


def _log(end: float | None) -> float | None:
    return None if end is None else math.log(end)


def _exact(p: Predicted, seeds: Sequence[Any]) -> Tested:
    """Every draw within rounding, and the positive control in none: a matter of fact, not luck."""

    def off(label: str) -> NDArray[np.float64]:
        return np.abs(_along(p, label, seeds) - p.plain["value"])

    own, other = off(p.plain["of"][0]), off(p.plain["fails_for"])
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
