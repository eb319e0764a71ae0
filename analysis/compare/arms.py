"""The score of every arm that two folders share, seed by seed where they share seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from analysis import stats
from analysis.arms import Arm, arms
from analysis.compare.comparable import HOPELESS, unlike
from analysis.load import WAITING, Loaded
from analysis.lookup import lookup
from analysis.predictions import NOTHING

IDENTICAL, CHANGED, DIFFERS = "identical", "changed", "differs, and is counted, not sampled"
INCOMPARABLE, ONE_SIDED = "not comparable", "scored on one side only"


@dataclass(frozen=True)
class ArmChange:
    """One arm on both sides, and B − A."""

    ablation: str
    label: str
    across: str
    metric: str
    unit: str
    a: float
    b: float
    n_a: int
    n_b: int
    ended_a: int
    ended_b: int
    """Seeds whose trial has ended, well or badly."""
    failures_a: str
    failures_b: str
    unlike: list[str] = field(default_factory=list)
    """In what the two sides differ besides luck."""
    word: str = ""
    direction: str = ""
    """Better or worse on side B, where it changed."""
    paired: bool = False
    n: int = 0
    difference: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    p_holm: float = math.nan


def arm_changes(a: Loaded, b: Loaded, tables: list[str]) -> list[ArmChange]:
    """Every arm that both plan; Holm goes over all that are tested, each pair of trials once."""
    found: list[tuple[Any, ArmChange, str]] = []
    for table in tables:
        better = b.ablations[table]["metric"]["better"]
        others = {(arm.label, arm.across): arm for arm in arms(b, table)}
        for one in arms(a, table):
            if (one.label, one.across) in others:
                change = _compared(a, b, one, others[one.label, one.across])
                found.append((_trials(a, b, change), change, better))
    tested = {key: change.p for key, change, _ in found if not math.isnan(change.p)}
    adjusted = dict(zip(tested, stats.holm(list(tested.values())), strict=True))
    return [
        _judged(change, adjusted[key], better) if key in adjusted else change
        for key, change, better in found
    ]


def _trials(a: Loaded, b: Loaded, change: ArmChange) -> tuple[Any, ...]:
    """What stands on both sides: tables that share a control compare it once."""
    place = (change.ablation, change.label, change.across)
    sides = [frozenset(lookup(loaded).trials[place].values()) for loaded in (a, b)]
    return (*sides, change.metric, a.ablations[change.ablation]["metric"]["split"])


def _compared(a: Loaded, b: Loaded, one: Arm, other: Arm) -> ArmChange:
    metric = b.ablations[one.ablation]["metric"]
    found = ArmChange(
        ablation=one.ablation,
        label=one.label,
        across=one.across,
        metric=metric["name"],
        unit=other.unit or one.unit,
        a=_mean(one.scores),
        b=_mean(other.scores),
        n_a=len(one.scores),
        n_b=len(other.scores),
        ended_a=_ended(one),
        ended_b=_ended(other),
        failures_a=one.failures,
        failures_b=other.failures,
        unlike=[each.kind for each in unlike(a, b, one.ablation, one.label, one.across)],
    )
    if not one.scores and not other.scores:
        return replace(found, word=stats.NOT_RUN)
    if not one.scores or not other.scores:
        return replace(found, word=ONE_SIDED)
    if any(kind in HOPELESS for kind in found.unlike) or one.unit != other.unit:
        return replace(found, word=INCOMPARABLE)
    return _tested(found, one.scores, other.scores, metric.get("repeats") == NOTHING)


def _tested(
    found: ArmChange, ones: dict[Any, float], others: dict[Any, float], is_counted: bool
) -> ArmChange:
    """Paired where enough seeds are shared; else by Welch's t, if each side has enough."""
    shared = [seed for seed in ones if seed in others]
    if shared and all(ones[seed] == others[seed] for seed in shared):
        return replace(found, word=IDENTICAL, paired=True, n=len(shared), difference=0.0)
    if is_counted:
        return replace(found, word=DIFFERS, n=len(shared), difference=found.b - found.a)
    if len(shared) >= stats.LEAST:
        told = stats.paired_mean([others[s] for s in shared], [ones[s] for s in shared])
    else:
        told = stats.unpaired_mean(list(others.values()), list(ones.values()))
    low, high = told.ends()
    found = replace(found, n=told.n, difference=told.value, low=low, high=high)
    if told.n < stats.LEAST:
        return replace(found, word=stats.FEW)
    return replace(found, word=stats.NOT_RESOLVED, paired=len(shared) >= stats.LEAST, p=told.p())


def _judged(change: ArmChange, p_holm: float, better: str) -> ArmChange:
    if not p_holm < stats.ALPHA:
        return replace(change, p_holm=p_holm)
    is_better = (change.difference < 0) == (better == "lower")
    direction = stats.BETTER if is_better else stats.WORSE
    return replace(change, p_holm=p_holm, word=CHANGED, direction=direction)


def _ended(arm: Arm) -> int:
    return sum(outcome != WAITING for outcome in arm.outcomes.values())


def _mean(scores: dict[Any, float]) -> float:
    return math.fsum(scores.values()) / len(scores) if scores else math.nan
