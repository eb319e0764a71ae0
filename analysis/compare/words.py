"""A comparison for the terminal: warnings first, then what changed, then what is missing."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from analysis.compare.arms import CHANGED, DIFFERS
from analysis.names import cell_name, short
from analysis.sentences import bounds, number
from analysis.tables.cells import p_value
from analysis.units import after_number

MOST = 20  # lines of one kind; --json has all of them
Row = dict[str, Any]


def lines(document: Row) -> list[str]:
    """The whole comparison, a finding a line."""
    return [
        *_sides(document),
        *_warnings(document),
        "",
        *_arms(document),
        *_times(document),
        *_claims(document),
        *_missing(document),
    ]


def _sides(document: Row) -> list[str]:
    found = []
    for side in ("a", "b"):
        held = document[side]
        stale = f", {held['stale']} stale" if held["stale"] else ""
        found.append(
            f"{side.upper()}  {held['path']}: profile {held['profile']}, {held['done']} of "
            f"{held['planned']} trials done{stale}"
        )
        found += [f"   {line}" for line in (*held["code"], *held["machines"])]
    return found


def _warnings(document: Row) -> list[str]:
    found = []
    for kind in dict.fromkeys(each["kind"] for each in document["cautions"]):
        mine = [each for each in document["cautions"] if each["kind"] == kind]
        arms = [short(arm, 40) for each in mine for arm in each["arms"]]
        more = f", and {len(mine) - 1} more such" if len(mine) > 1 else ""
        found.append(
            f"Warning: other {kind} in {_count(arms, 'arm')} ({_some(arms, 2)}): "
            f"{mine[0]['detail']}{more}"
        )
    if document["other_machines"]:
        found.append("Warning: times are of other machines: ratios to the control may differ")
    return found


def _arms(document: Row) -> list[str]:
    arms = document["arms"]
    words = Counter(arm["word"] for arm in arms)
    told = ", ".join(f"{n} {word}" for word, n in words.most_common())
    found = [f"{_count(arms, 'arm')} of {_count(document['questions'], 'question')}: {told}"]
    found += _capped([_arm(arm) for arm in arms if arm["word"] in (CHANGED, DIFFERS)])
    ended = [
        arm
        for arm in arms
        if arm["failures_a"] != arm["failures_b"] and arm["ended_a"] and arm["ended_b"]
    ]
    found += _capped(
        [
            f"  ended otherwise: {_name(arm)}: {arm['failures_a'] or 'no failure'} → "
            f"{arm['failures_b'] or 'no failure'}"
            for arm in ended
        ]
    )
    return found


def _arm(arm: Row) -> str:
    low, high = _numbers(arm["low"], arm["high"])
    half = (high - low) / 2
    change = f"{number(arm['a'], half)} → {number(arm['b'], half)}{after_number(arm['unit'])}"
    text = f"  {arm['direction'] or 'differs'}: {_name(arm)}: {arm['metric']} {change}"
    if math.isnan(low):
        return text
    how = "paired by seed" if arm["paired"] else "unpaired"
    return (
        f"{text}, by {number(arm['difference'], half)} (95 % interval {bounds(low, high)}, {how}, "
        f"n = {arm['n']}, p after Holm {p_value(arm['p_holm'])}){_because(arm)}"
    )


def _because(arm: Row) -> str:
    return f"; other {', '.join(arm['unlike'])}" if arm["unlike"] else ""


def _times(document: Row) -> list[str]:
    times = document["times"]
    if not times:
        return []
    words = Counter(time["word"] for time in times)
    told = ", ".join(f"{n} {word}" for word, n in words.most_common())
    found = [f"{_count(times, 'time')} against the control: {told}"]
    return found + _capped(
        [
            f"  {time['direction']}: {_name(time)}: {time['metric']} at {time['at']}: "
            f"{time['a']:.3g} × → {time['b']:.3g} × (95 % interval of the change "
            f"{bounds(time['low'], time['high'])}, p after Holm {p_value(time['p_holm'])})"
            f"{_because(time)}"
            for time in times
            if time["word"] == CHANGED
        ]
    )


def _claims(document: Row) -> list[str]:
    claims = document["claims"]
    if not claims:
        return []
    changed = [claim for claim in claims if claim["changed"]]
    waiting = sum(
        claim["verdict_a"] != claim["verdict_b"] and not claim["changed"] for claim in claims
    )
    rest = f", {waiting} run on one side only" if waiting else ""
    found = [f"{_count(claims, 'claim')}: {len(changed)} with another verdict{rest}"]
    return found + _capped(
        [
            f"  {claim['id']} ({claim['question']}): {_verdict(claim, 'a')} → "
            f"{_verdict(claim, 'b')}"
            for claim in changed
        ]
    )


def _verdict(claim: Row, side: str) -> str:
    reason = claim[f"reason_{side}"]
    return f"{claim[f'verdict_{side}']}{f' ({reason})' if reason else ''}"


def _missing(document: Row) -> list[str]:
    found = []
    for side in ("a", "b"):
        only = document[f"only_{side}"]
        arms = [f"{arm[0]}: {cell_name(arm[1], arm[2])}" for arm in only["arms"]]
        if only["questions"]:
            found.append(f"Only in {side.upper()}: questions {_some(only['questions'], MOST)}")
        if arms:
            found.append(f"Only in {side.upper()}: arms {_some(arms, MOST)}")
    return found


def _name(row: Row) -> str:
    return f"{row['ablation']}: {short(cell_name(row['label'], row['across']))}"


def _numbers(*values: float | None) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _count(things: list[Any], word: str) -> str:
    return f"{len(things):,} {word}{'' if len(things) == 1 else 's'}"


def _some(words: list[str], most: int) -> str:
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _capped(found: list[str]) -> list[str]:
    more = [f"  and {len(found) - MOST} more: --json has them all"] if len(found) > MOST else []
    return found[:MOST] + more
