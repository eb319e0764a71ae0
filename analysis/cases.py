"""Cases: where a prediction is measured, which seeds judge it, and its values there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.store.predictions import STEPS, Exact, Prediction, Ratio
from analysis import stats
from analysis.load import FINE, Loaded, Row, Variant, by_step, crossing, scores, session_of
from analysis.timing import log_ratios, log_seconds, timed_at

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Spot:
    """Where a prediction is measured: levels of factors, coordinates, and the value of `along`."""

    factors: str
    coordinates: dict[str, Any]
    x: float = math.nan


@dataclass(frozen=True)
class Case:
    """One prediction at one level of the factors, or along one of them."""

    loaded: Loaded
    experiment: str
    prediction: Prediction
    crossings: tuple[dict[str, str], ...]

    @cached_property
    def metric(self) -> Row:
        """Facts about its metric; `repeats` is `seeds`, `processes` or `nothing`."""
        known = self.loaded.experiments[self.experiment]["metrics"].get(self.prediction.metric, {})
        return {"repeats": "seeds", "better": "lower", "unit": "", **known}

    @property
    def is_timed(self) -> bool:
        return bool(self.metric["repeats"] == "processes")

    @property
    def is_fact(self) -> bool:
        return self.metric["repeats"] == "nothing" or isinstance(self.prediction, Exact)

    @property
    def sign(self) -> int:
        """1 if higher is better, else −1."""
        return 1 if self.metric["better"] == "higher" else -1

    @property
    def variants(self) -> list[Variant]:
        """Every variant that it compares, at each level of its factors."""
        lines = [crossing(across) for across in self.crossings]
        return [(self.experiment, label, x) for label in self.prediction.compared for x in lines]

    @property
    def sides(self) -> list[tuple[str, Spot]]:
        """Every variant at every place."""
        return [(label, spot) for label in self.prediction.compared for spot in self.spots]

    @cached_property
    def spots(self) -> list[Spot]:
        """Every place where it is measured, in the order of its factor."""
        p = self.prediction
        along, since = getattr(p, "along", None), getattr(p, "since", None)
        if along is None:
            return [Spot(crossing(across), p.coordinates) for across in self.crossings]
        found = []
        for across in self.crossings:
            line = crossing(across)
            if along in across:
                found.append(Spot(line, p.coordinates, float(across[along])))
            else:
                shared = set.intersection(*(self._places(x, line, along) for x in p.compared))
                found += [Spot(line, {**p.coordinates, along: x}, x) for x in shared]
        return sorted((s for s in found if since is None or s.x >= since), key=lambda s: s.x)

    def _places(self, label: str, across: str, along: str) -> set[float]:
        """The values of a coordinate at which a variant was measured."""
        p, variant = self.prediction, (self.experiment, label, across)
        if self.is_timed:
            groups = timed_at(self.loaded, variant, p.metric, p.coordinates)
            return {
                g[0]["coordinates"][along]
                for g in groups
                if along in g[0]["coordinates"] and log_seconds(g)
            }
        rows = self.loaded.of_metric(self.experiment, p.metric)
        mine = rows[(rows["variant"] == label) & (rows["factors"] == across)]
        return set(mine[along].dropna()) if along in mine else set()

    def ready(self) -> tuple[list[int], str]:
        """The seeds or processes that judge it, and the reason if they do not yet."""
        if self.is_timed:
            return self._processes()
        least = 1 if self.is_fact else stats.LEAST
        planned, ended = (
            [held.get(variant, {}).keys() for variant in self.variants]
            for held in (self.loaded.ids, self.loaded.outcomes)
        )
        reason, done = "not planned for every variant that it looks at", []
        for batch in self.loaded.experiments[self.experiment]["seed_batches"]:
            asked = [seed for seed in batch if all(seed in own for own in planned)]
            have = [seed for seed in asked if all(seed in own for own in ended)]
            if not asked or (not reason and (have != asked or len(have) < least)):
                continue  # a later batch judges only when it is complete
            done, reason = have, ""
            if have != asked:
                reason = f"pass {len(have)} of {len(asked)}"
            elif len(have) < least:
                plural = "s" * (len(have) > 1)
                reason = f"{len(have)} seed{plural}; {least} are needed for a verdict"
        return done, reason

    def _processes(self) -> tuple[list[int], str]:
        groups = [group for side in self.sides for group in self._timed(*side)]
        sessions = {session_of(str(group[0]["session"])) for group in groups}
        if len(sessions) > 1 and not isinstance(self.prediction, Ratio):
            return [], "timed in different sessions, which have nothing in common"
        n = min((len(self.values(*side)) for side in self.sides), default=0)
        if n == 0:
            return [], "not timed at the places that it looks at"
        few = f"timed in {n} process{'es' * (n > 1)}; {stats.LEAST} are needed"
        return list(range(n)), few if n < stats.LEAST else ""

    def _timed(self, label: str, spot: Spot) -> list[list[Row]]:
        variant = self.experiment, label, spot.factors
        return timed_at(self.loaded, variant, self.prediction.metric, spot.coordinates)

    def values(self, label: str, spot: Spot) -> dict[int, float]:
        """Seed, or process, → the value of a variant at a place."""
        p, variant = self.prediction, (self.experiment, label, spot.factors)
        if self.is_timed:
            found = self._timed(label, spot)
            # If it was timed at several places and the prediction names none, nothing is known.
            logs = log_seconds(found[0]) if len(found) == 1 else []
            return {process: math.exp(log) for process, log in enumerate(logs)}
        if p.metric != STEPS:
            return scores(self.loaded, variant, p.metric, p.split, spot.coordinates)
        # The first evaluation with so low a loss; a failed seed never reaches it.
        curve = by_step(self.loaded, variant, "loss", "valid", {})
        arrived = (
            curve[curve["value"] <= float(p.coordinates["loss"])].groupby("seed")["step"].min()
        )
        never = dict.fromkeys(self.loaded.outcomes.get(variant, {}), math.inf)
        return {**never, **arrived.to_dict()}

    def matrix(self, label: str, units: Sequence[int]) -> Floats:
        """S L: the values of a variant, by seed or process and place along its factor."""
        held = [self.values(label, spot) for spot in self.spots]
        return np.array([[each.get(unit, math.nan) for each in held] for unit in units])

    def log_ratios(self, label: str, spot: Spot) -> tuple[list[float], float]:
        """A variant's log ratios to the baseline's times, and the noise floor."""
        found = self._timed(label, spot)
        return log_ratios(found[0])[:2] if len(found) == 1 else ([], math.nan)

    def lost(self, seeds: Sequence[int]) -> str:
        """`2 of 5 seeds failed` or `… have no score`, on either side; empty if none."""
        if self.is_timed:
            return ""
        ended = [self.loaded.outcomes.get(variant, {}) for variant in self.variants]
        held = [self.values(*side) for side in self.sides]
        for words, bad in (
            ("failed", [any(own.get(seed) != FINE for own in ended) for seed in seeds]),
            ("have no score", [any(seed not in own for own in held) for seed in seeds]),
        ):
            if any(bad):
                return f"{sum(bad)} of {len(seeds)} seeds {words}"
        return ""

    def seconds(self) -> float:
        """Seconds for one more seed of every variant that it compares; NaN if unknown."""
        total = 0.0
        for variant in self.variants:
            trials = self.loaded.ids.get(variant, {}).values()
            held = [self.loaded.records[t].env for t in trials if t in self.loaded.records]
            spent = [env["seconds"] for env in held if env.get("seconds") is not None]
            total += math.fsum(spent) / len(spent) if spent else math.nan
        return total if self.variants else math.nan


def cases(loaded: Loaded, experiment: str, prediction: Prediction) -> list[Case]:
    """One case for each level of the factors that the prediction does not name."""
    every = {crossing(c["factors"]): c["factors"] for c in loaded.experiments[experiment]["trials"]}
    along = getattr(prediction, "along", None)
    groups: dict[str, list[dict[str, str]]] = {}
    for across in every.values():
        if all(across.get(name) == level for name, level in prediction.factors.items()):
            rest = {name: level for name, level in across.items() if name != along}
            groups.setdefault(crossing(rest), []).append(across)
    found = []
    for group in groups.values():
        levels = {name: level for name, level in group[0].items() if name != along}
        pinned = prediction.model_copy(update={"factors": levels})
        found.append(Case(loaded, experiment, pinned, tuple(group)))
    return found or [Case(loaded, experiment, prediction, ())]
