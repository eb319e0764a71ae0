"""What was measured for a claim, in words, and which measured effects stand out most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.sentences import bounds, named, number
from analysis.units import after_number
from analysis.verdicts import REFUTED, SUPPORTED

FINDINGS = 3
PLAIN = ("difference", "ratio", "value")  # kinds that their number tells by itself
GROWTH = "growth with each doubling"
NOTHING = {"difference": 0.0, GROWTH: 0.0, "ratio": 1.0}
"""Kinds of effect that can be none at all, and what they are then."""
PREPOSITIONS = ("of", "to")  # coordinates that need no other before them
VERBS = {GROWTH: "grows with each doubling by"}


def told(claim: Mapping[str, Any], metrics: Mapping[str, Any]) -> list[str]:
    """What was measured for a claim, names marked: a line for each metric, its effects in order."""
    lines: dict[str, list[str]] = {}
    for each in claim["evidence"]:
        if each["shares"]:
            parts = [f"{named(name)} {hits} of {n}" for name, (hits, n) in each["shares"].items()]
            lines.setdefault("seeds past the threshold", []).append(", ".join(parts))
        elif each["effect"] is not None:
            known = metrics.get(each["metric"], {})
            label = known.get("label") or each["metric"].replace("_", " ")
            kind = "" if each["shows"] in PLAIN else f" {VERBS.get(each['shows'], each['shows'])}"
            told_size = size(each, known.get("unit") or "")
            text = f"{_subject(each)}{_where(each)}{kind} {told_size}"
            lines.setdefault(label, []).append(text)
    return [f"{label}: {'; '.join(dict.fromkeys(texts))}" for label, texts in lines.items()]


def size(each: Mapping[str, Any], unit: str = "") -> str:
    """`0.41 nats/token (95 %: 0.385 to 0.435)`; of a ratio `0.77 × (99.5 %: 0.62 to 0.94)`."""
    low, high = _ends(each)
    is_ratio = each["shows"] == "ratio" and each["than"] is not None
    has_unit = each["shows"] in NOTHING and each["shows"] != "ratio"
    after = " ×" if is_ratio else after_number(unit) if has_unit else ""
    sign = "+" if each["shows"] == "difference" and each["effect"] > 0 else ""
    level = f"{100 * each['level']:.3g} %"  # what is left of the error at this look
    ends = f" ({level}: {bounds(low, high)})" if not math.isnan(low) else ""
    return f"{sign}{number(each['effect'], (high - low) / 2)}{after}{ends}"


def findings(decided: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The decided claims whose effect is most half-widths of its interval away from none.

    One a question: its others would tell the same story again.
    """
    found: dict[str, tuple[float, dict[str, Any]]] = {}
    for claim in decided:
        question = claim["scope"]["question"]
        if claim["verdict"] not in (SUPPORTED, REFUTED):
            continue
        for each in claim["evidence"]:
            far = distance(each)
            if far > found.get(question, (0.0, {}))[0]:
                found[question] = far, {"claim": claim, "each": each, "distance": far}
    ranked = sorted(found.values(), key=lambda pair: -pair[0])
    return [finding for _, finding in ranked[:FINDINGS]]


def distance(each: Mapping[str, Any]) -> float:
    """How many half-widths of its interval an effect is away from none; ratios by their logs.

    Only of one arm against another: a number alone is away from nothing.
    """
    low, high = _ends(each)
    is_effect = each["shows"] in NOTHING and each["than"] is not None and not each["shares"]
    if not is_effect or each["effect"] is None or math.isnan(low):
        return 0.0
    ends = [each["effect"], low, high]
    if each["shows"] == "ratio":
        if min(ends) <= 0:
            return 0.0
        ends = [math.log(end) for end in ends]
    half = (ends[2] - ends[1]) / 2
    return abs(ends[0]) / half if half > 0 else 0.0


def _ends(each: Mapping[str, Any]) -> tuple[float, float]:
    low, high = (math.nan if end is None else end for end in each["interval"])
    return low, high


def _where(each: Mapping[str, Any]) -> str:
    """` at length 32, batch 16:`, ` of layer:`, or nothing where it was read at one place only."""
    places = {**each["across"], **each["at"]}
    told = [f"{name.replace('_', ' ')} {place}" for name, place in places.items()]
    lead = "" if next(iter(places), "") in PREPOSITIONS else "at "
    return f" {lead}{', '.join(told)}:" if told else ""


def _subject(each: Mapping[str, Any]) -> str:
    """`none − sinusoidal`, `lstm over transformer`; a growth is that of a lead, whichever way is
    better."""
    if each["shows"] == GROWTH and each["than"]:
        return f"lead of {', '.join(map(named, each['of']))} over {named(each['than'])}"
    names = [*each["of"], *([each["than"]] if each["than"] else [])]
    joint = " over " if each["shows"] == "ratio" else " − " if each["than"] else ", "
    return joint.join(map(named, names))
