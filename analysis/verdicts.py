"""Verdicts: what the readings of a question make of each claim that it registers.

A claim is looked at after the first 3, 5 and 10 of its planned seeds (one that is about a share of
seeds after 5 and 10), never after others that happen to be stored; the error is spent over the
looks, Holm goes over the question's claims, run or not, and the first decision stands.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablations.store.seeds import deciding
from analysis import stats
from analysis.load import Loaded, runners_up, with_runner_up
from analysis.predictions import Predicted, joint
from analysis.scores import outcomes, scores
from analysis.stats import Decision, Estimate, Looks, Planned, Tested, TwoLucks

SUPPORTED, REFUTED, UNDECIDED, NOT_RUN = "supported", "refuted", "undecided", "not run"
VERDICTS = (SUPPORTED, REFUTED, UNDECIDED, NOT_RUN)  # as they are listed
MOVING = 0.5  # of its margin, over the last third of the steps


@dataclass(frozen=True)
class Verdict:
    """One claim at one scope."""

    id: str
    statement: str
    source: str
    verdict: str
    reason: str
    scope: dict[str, Any]
    n: int = 0
    p: float = math.nan
    evidence: list[dict[str, Any]] = field(default_factory=list)
    """What was found for each of its predictions."""
    needed: tuple[float, float] | None = None
    """Seeds that it would take, from and to."""
    asks: dict[str, int] = field(default_factory=dict)
    """Variant → seeds of the next look that may decide it."""
    is_unseen: bool = False
    """Whether that look is its first: shares of seeds take more of them than levels do."""
    remedy: str = ""
    """What would decide it, where it is open."""


def verdicts(loaded: Loaded) -> list[Verdict]:
    """Every claim of the plan, in its order; worked out once."""
    if "verdicts" not in loaded.kept:
        found = [each for name in loaded.ablations for each in _of_question(loaded, name)]
        loaded.kept["verdicts"] = found
    return list(loaded.kept["verdicts"])


def _of_question(loaded: Loaded, name: str) -> list[Verdict]:
    found = _decided(loaded, name)
    control = undertrained(loaded, name) if found else ""
    others = {
        label: _decided(with_runner_up(loaded, name, label), name)
        for label in runners_up(loaded, name)
    }
    return [
        claimed.verdict(
            _scope(loaded, name),
            "" if claimed.is_timed or claimed.is_counted else control,
            decision,
            seeds,
            {label: other[i][1].word for label, other in others.items()},
        )
        for i, (claimed, decision, seeds) in enumerate(found)
    ]


def _decided(loaded: Loaded, name: str) -> list[tuple[_Claimed, Decision, list[Any]]]:
    """What the seeds of each claim say; only those that nobody has looked at decide."""
    entry = loaded.ablations[name]
    claims = [
        _Claimed(
            claim, [Predicted(loaded, name, each) for each in claim["predicts"]], entry["arms"]
        )
        for claim in entry["claims"]
    ]
    family = [claimed.planned(deciding(entry["seeds_from"])) for claimed in claims]
    decisions = stats.decide_family(family, declared=max(entry["declared"], len(claims)))
    return [
        (claimed, decision, list(held.seeds))
        for claimed, decision, held in zip(claims, decisions, family, strict=True)
    ]


@dataclass(frozen=True)
class _Claimed:
    claim: dict[str, Any]
    predicted: list[Predicted]
    arms: str

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is about tuned arms, and these are not."""
        return self.predicted[0].plain["arms"] == "tuned" != self.arms

    @property
    def labels(self) -> list[str]:
        """Every variant that it looks at."""
        return list(dict.fromkeys(label for each in self.predicted for label in each.labels))

    @property
    def looks(self) -> Looks:
        if self.is_mixed:  # once, when each has what it needs
            return Looks((1,), (1.0,))
        if self.is_timed:  # once, at all the processes there are
            return Looks((max(stats.LEAST, len(self._ended())),), (1.0,))
        if self.is_counted:
            return Looks((1,), (1.0,))
        is_basin = any(each.is_basin for each in self.predicted)
        return stats.BASIN_LOOKS if is_basin else stats.LEVEL_LOOKS

    def planned(self, order: Sequence[Any]) -> Planned:
        """Its seeds in their order, as far as every trial before has ended."""
        if self.is_mixed:
            whole = all(len(self._units(each)) >= _least(each) for each in self.predicted)
            return Planned(np.arange(int(whole)), self.test, self.looks)
        ended = set() if self.is_elsewhere else self._ended()
        order = sorted(ended) if self.is_timed else order
        prefix = []
        for seed in order:
            if seed not in ended:
                break
            prefix.append(seed)
        return Planned(np.array(prefix, dtype=object), self.test, self.looks)

    def _ended(self) -> set[Any]:
        return set.intersection(*(each.ended() for each in self.predicted))

    def test(self, seeds: NDArray[Any]) -> Tested:
        return joint([each.test(self._units(each, list(seeds))) for each in self.predicted])

    @property
    def is_mixed(self) -> bool:
        """Whether its predictions are repeated by different things: seeds, processes, nothing."""
        return len({each.repeats for each in self.predicted}) > 1

    def _units(self, each: Predicted, seeds: Sequence[Any] = ()) -> list[Any]:
        """What repeats one of its predictions."""
        return sorted(each.ended()) if self.is_mixed else list(seeds)

    @property
    def is_timed(self) -> bool:
        return any(each.is_timed for each in self.predicted)

    @property
    def is_counted(self) -> bool:
        return all(each.is_counted for each in self.predicted)

    def verdict(
        self,
        scope: dict[str, Any],
        control: str,
        decision: Decision,
        seeds: Sequence[Any],
        otherwise: dict[str, str],
    ) -> Verdict:
        """`control` is why it cannot be judged by, if it cannot; `otherwise` what it would be with
        the other setting that a variant tuned as well."""
        word, reason, remedy = decision.word, "", ""
        used = seeds[: decision.n] or seeds
        # Seeds beyond so many might decide it; None: no seed can.
        is_repeated = not (self.is_elsewhere or self.is_mixed or self.is_timed or self.is_counted)
        open_from = len(used) if is_repeated else None
        changed = [
            label for label, other in otherwise.items() if label in self.labels and other != word
        ]
        moving = word == SUPPORTED and self._is_moving(seeds[: decision.n])
        if self.is_elsewhere:
            word, reason = NOT_RUN, "its arms are not tuned here: run it with --tune"
            remedy = "the question with --tune"
        elif not seeds and self.is_timed and self._is_short:
            word, reason = NOT_RUN, "not timed at the places that it looks at"
            remedy = "a larger profile, which goes further"
        elif not seeds:
            what = "nothing was timed" if self.is_timed else "no seed that decides has ended"
            word, reason = NOT_RUN, f"{what} in every arm that it looks at"
            remedy = "the question, run to its end"
        elif control:
            word, reason, open_from = UNDECIDED, f"undertrained: {control}", None
            remedy = "more steps, until the control knows its task"
        elif word == UNDECIDED and self._is_untellable(decision, seeds):
            reason = "a seed failed or has no score, so its level cannot be told"
            remedy = "a regime in which no seed fails, or a claim about how many do"
            open_from = None
        elif word == UNDECIDED:
            reason, remedy = self._why(decision, seeds), self._what_decides(decision, used)
        elif changed:
            is_opposite = any(otherwise[label] != UNDECIDED for label in changed)
            end = "would be decided otherwise" if is_opposite else "is not decided alike"
            reason = f"tuning: another setting of {changed[0]} was as good, and {end}"
            remedy = f"more tuning seeds, or a finer grid, for {changed[0]}"
            # Whatever decided it, more seeds are for the one that is still open.
            word, open_from = UNDECIDED, None if is_opposite else len(seeds)
        elif moving:
            word, reason = UNDECIDED, "still moving: the arms have not settled beside each other"
            remedy = "more steps, until the difference stands still"
            open_from = None
        level = self.looks.level(max(decision.look, 0))
        return Verdict(
            id=self.claim["id"],
            statement=self.claim["statement"],
            source=self.claim["source"],
            verdict=word,
            reason=reason,
            scope=scope,
            n=len(used),
            p=decision.p,
            evidence=[_evidence(each, self._units(each, used), level) for each in self.predicted],
            needed=self._needed(used) if word == UNDECIDED else None,
            asks=self._asks(open_from, used) if word in (UNDECIDED, NOT_RUN) else {},
            is_unseen=len(seeds) < self.looks.seeds[0],
            remedy=remedy,
        )

    def _is_moving(self, seeds: Sequence[Any]) -> bool:
        """Whether an equality is one of a moment: its difference moves by half its margin."""
        equal = [each for each in self.predicted if each.is_equality]
        return any(each.still_moves(seeds) > MOVING for each in equal)

    def _asks(self, open_from: int | None, used: Sequence[Any]) -> dict[str, int]:
        """Variant → how many seeds its next look takes; nothing where no look may decide it."""
        left = [] if open_from is None else [n for n in self.looks.seeds if n > open_from]
        needed = self._needed(used) if len(used) >= self.looks.seeds[0] else None
        is_far = needed is not None and needed[0] > self.looks.seeds[-1]
        return {} if not left or is_far else dict.fromkeys(self.labels, left[0])

    def _is_untellable(self, decision: Decision, seeds: Sequence[Any]) -> bool:
        """Whether a seed that every look contains has no score."""
        is_silent = bool(decision.tested) and math.isnan(decision.tested[-1].p)
        return is_silent and any(each.has_gaps(seeds[: decision.n]) for each in self.predicted)

    def _why(self, decision: Decision, seeds: Sequence[Any]) -> str:
        first = self.looks.seeds[0]
        if self.is_timed and len(seeds) < first:
            told = f"{len(seeds)} process{'es' * (len(seeds) != 1)}"
            return f"timed in {told}; {first} are needed"
        if len(seeds) < first:
            return f"{len(seeds)} seed{'s' * (len(seeds) != 1)}; {first} are needed for a look"
        if self.is_timed and decision.tested and math.isnan(decision.tested[-1].p):
            return "not timed at enough places, or beside no twin"
        if decision.tested and math.isnan(decision.tested[-1].p):
            return "the same in every seed, so its spread cannot be told"
        return f"too noisy for so few {'processes' if self.is_timed else 'seeds'}"

    @property
    def _is_short(self) -> bool:
        """Whether a prediction goes along something that was read nowhere that counts."""
        return any(each.plain["along"] is not None and not each.spots for each in self.predicted)

    def _what_decides(self, decision: Decision, used: Sequence[Any]) -> str:
        """In plain words, for one that its seeds or processes leave open."""
        is_silent = bool(decision.tested) and math.isnan(decision.tested[-1].p)
        if is_silent and self.is_timed:
            return "a larger profile, which times more places"
        if is_silent:
            return "a measure that tells these apart"
        if self.is_timed:
            return "more processes (timing.processes), or a quieter machine"
        found = self._needed(used)
        if found is None:
            return f"more seeds than {len(used)}" if not self.is_counted else "another measure"
        low, high = found
        if math.isinf(low):
            return "a longer training or a larger margin: at this size no number of seeds would"
        upper = "many" if math.isinf(high) else f"{high:.0f}"
        return f"{low:.0f} to {upper} seeds"

    def _needed(self, seeds: Sequence[Any]) -> tuple[float, float] | None:
        """By the prediction that needs most, where its size and spread are known."""
        found = []
        for each in self.predicted:
            if each.plain["word"] not in ("better", "worse", "equal"):
                continue
            estimate = each.difference(seeds)
            if isinstance(estimate, TwoLucks):
                estimate = estimate.same_items  # more seeds bring no other items
            if each.is_basin or not estimate.error > 0:
                continue
            sd = estimate.error * math.sqrt(estimate.n)
            alpha = stats.ALPHA * self.looks.weights[-1] / 2  # one end of the last look's interval
            # What so few seeds leave open: of the spread, and of how far the truth lies off.
            low, high = (
                stats.seeds_needed(distance, sd, estimate.n, alpha, equal=each.is_equality)
                for distance in each.distances(estimate)
            )
            found.append((low.expected, high.high))
        return max(found, key=lambda pair: pair[1]) if found else None


def _least(each: Predicted) -> int:
    """So many repeats make a verdict."""
    return 1 if each.is_counted else stats.LEAST


def _evidence(each: Predicted, seeds: Sequence[Any], level: float) -> dict[str, Any]:
    """One prediction with what was measured for it."""
    shown = each.shown(seeds, level)
    estimate = each.difference(seeds)
    return {
        "predicts": each.plain["word"],
        "of": list(each.plain["of"]),
        "than": each.plain["than"],
        "metric": each.plain["metric"],
        "across": each.plain["across"],
        "at": each.plain["at"],
        "margin": each.plain["within"] if each.plain["within"] is not None else each.plain["by"],
        "because": each.plain["because"],
        "kind": each.plain["kind"],
        "shows": shown.kind,
        "effect": shown.effect,
        "interval": [shown.low, shown.high],
        "level": level,
        "n": shown.n,
        "shares": _shares(each, seeds) if each.is_basin else None,
        "of_items": _of_items(estimate),
    }


def _of_items(estimate: Estimate | TwoLucks) -> float | None:
    """Which share of the effect's variance comes from the test items, not from the seeds."""
    if not isinstance(estimate, TwoLucks):
        return None
    whole = estimate.seeds + estimate.items + estimate.rest
    return estimate.items / whole if whole > 0 else None


def _shares(each: Predicted, seeds: Sequence[Any]) -> dict[str, list[int]]:
    """Of each variant of a basin: how many seeds are past it, of how many."""
    named = [name for name in (*each.plain["of"], each.plain["than"]) if name is not None]
    past = {name: [each.past(name, spot, seeds) for spot in each.spots] for name in named}
    return {name: [sum(map(sum, told)), sum(map(len, told))] for name, told in past.items()}


def _scope(loaded: Loaded, name: str) -> dict[str, Any]:
    """Where it was tried: the verdict holds there, and nowhere else."""
    entry = loaded.ablations[name]
    cells = loaded.cells[loaded.cells["ablation"] == name]
    control = cells[cells["label"] == entry["control"]]["parameters"].dropna()
    parameters = int(control.max()) if len(control) else None
    return {
        "question": name,
        "task": entry["task"],
        "profile": entry["profile"],
        "parameters": parameters,
    }


def undertrained(loaded: Loaded, name: str) -> str:
    """Why a question's control cannot be judged by; empty if it can."""
    entry = loaded.ablations[name]
    metric, control = entry["metric"], entry["control"]
    places = {
        across
        for label, across in zip(loaded.cells["label"], loaded.cells["across"], strict=True)
        if label == control
    }
    stuck = ended = 0
    for across in places:
        found = outcomes(loaded, name, control, across).values()
        stuck += sum(outcome == "stuck" for outcome in found)
        ended += len(found)
        own = scores(loaded, name, control, across, metric["name"], metric["split"], {})
        for kind in ("trivial", "copied"):
            other = f"{kind}_{metric['name']}"
            trivial = scores(loaded, name, control, across, other, metric["split"], {})
            if own and trivial and not _beats(own, trivial, metric["better"]):
                told = "copying its source" if kind == "copied" else "an answer without looking"
                return f"{control} scores no better than {told}"
    return f"{stuck} of {ended} of its controls are stuck" if 2 * stuck > ended else ""


def _beats(own: dict[Any, float], trivial: dict[Any, float], better: str) -> bool:
    sign = 1 if better == "higher" else -1
    mean, other = (sum(side.values()) / len(side) for side in (own, trivial))
    return sign * mean > sign * other
