"""Times against the control on both sides: ratios travel between machines, seconds do not."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from analysis import environment, stats
from analysis.compare.arms import CHANGED, IDENTICAL
from analysis.compare.comparable import unlike
from analysis.load import Loaded
from analysis.speed import at, log_ratios, timed

Key = tuple[str, str, str, str, str]
"""An ablation, a label, its crossing, what was timed and where."""


@dataclass(frozen=True)
class TimeChange:
    """One timed place of one arm: its ratio to the control on both sides, and B's over A's."""

    ablation: str
    label: str
    across: str
    metric: str
    at: str
    a: float
    b: float
    n: int
    word: str
    direction: str = ""
    change: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    p_holm: float = math.nan
    unlike: list[str] = field(default_factory=list)
    """In what the two sides differ besides luck."""
    machine_a: str = ""
    machine_b: str = ""


@dataclass(frozen=True)
class _Timed:
    logs: list[float]
    floor: float
    machine: str


def time_changes(a: Loaded, b: Loaded, tables: list[str]) -> list[TimeChange]:
    """Every place that both have timed; Holm goes over all of them."""
    ones, others = (_places(loaded, tables) for loaded in (a, b))
    pairs = [(key, ones[key], others[key]) for key in ones if key in others]
    found = [
        replace(_compared(*pair), unlike=[each.kind for each in unlike(a, b, *pair[0][:3])])
        for pair in pairs
    ]
    adjusted = stats.holm([change.p for change in found])
    return [
        _judged(change, p_holm, float(max(one.floor, other.floor)))
        for change, p_holm, (_, one, other) in zip(found, adjusted, pairs, strict=True)
    ]


def _places(loaded: Loaded, tables: list[str]) -> dict[Key, _Timed]:
    found: dict[Key, _Timed] = {}
    for group in timed(loaded):
        first = group[0]
        is_control = first["label"] == loaded.ablations[first["ablation"]]["control"]
        logs, floor = log_ratios(group)
        if first["ablation"] in tables and logs and not is_control:
            key = (first["ablation"], first["label"], first["across"])
            machine = environment.machine(loaded.records[first["trial"]], first["session"])
            told = _Timed(logs, floor, machine)
            found.setdefault((*key, first["metric"], at(first["at"])), told)
    return found


def _compared(key: Key, one: _Timed, other: _Timed) -> TimeChange:
    told = stats.unpaired_mean(other.logs, one.logs)
    a, b = (math.exp(math.fsum(side.logs) / len(side.logs)) for side in (one, other))
    found = TimeChange(
        *key,
        a,
        b,
        told.n,
        stats.FEW,
        change=math.exp(told.value),
        machine_a=one.machine,
        machine_b=other.machine,
    )
    if one.logs == other.logs:
        return replace(found, word=IDENTICAL)
    if told.n < stats.LEAST:
        return found
    low, high = (math.exp(end) for end in told.ends())
    return replace(found, word=stats.NOT_RESOLVED, low=low, high=high, p=told.p())


def _judged(change: TimeChange, p_holm: float, floor: float) -> TimeChange:
    """Changed where the noise floors of both sessions allow it, too."""
    change = replace(change, p_holm=p_holm)
    if not p_holm < stats.ALPHA or not abs(math.log(change.change)) > floor:
        return change
    direction = stats.SLOWER if change.change > 1 else stats.FASTER
    return replace(change, word=CHANGED, direction=direction)
