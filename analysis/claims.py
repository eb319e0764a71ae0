"""Each registered claim with its verdict, for the terminal, the page and `claims.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ablations.store.words import quoted
from analysis.evidence import Evidence
from analysis.sentences import bounds, number
from analysis.verdicts import Verdict, verdicts


def claims(evidence: Evidence, asked: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Every claim of the plan, or those that are asked for, a row for each scope."""
    found = verdicts(evidence.loaded)
    known = {each.id for each in found}
    for name in asked:
        if name not in known:
            raise ValueError(
                f"no claim {name[:60]!r} in this folder: run a question that decides it"
            )
    return [_document(each, evidence) for each in found if not asked or each.id in asked]


def _document(each: Verdict, evidence: Evidence) -> dict[str, Any]:
    """Strict JSON: what is not known is null."""
    done, planned = evidence.loaded.done(each.scope["question"])
    first = each.evidence[0]
    told = {"effect": first["effect"], "interval": first["interval"], "done": done}
    return plain({**asdict(each), **told, "trials": planned})


def plain(value: Any) -> Any:
    """What strict JSON can say: a number that is not finite is null."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def lines(claim: dict[str, Any]) -> list[str]:
    """A claim for the terminal: the verdict first, then a line for each of its predictions."""
    reason = f" ({claim['reason']})" if claim["reason"] else ""
    scope = claim["scope"]
    size = "" if scope["parameters"] is None else f", {scope['parameters']:,} parameters"
    partial = "" if claim["done"] == claim["trials"] else ", partial"
    return [
        f"{claim['id']}: {claim['verdict']}{reason}",
        f"  {claim['statement']} ({claim['source']})",
        f"  {scope['question']} on {scope['task']}{size}, n = {claim['n']}{partial}",
        *(f"  {_line(each)}" for each in claim["evidence"]),
        *([f"  would decide it: {claim['remedy']}"] if claim["remedy"] else []),
    ]


def _line(each: dict[str, Any]) -> str:
    than = f" than {quoted(each['than'])}" if each["than"] else ""
    text = f"{' over '.join(map(quoted, each['of']))} {each['predicts']}{than}"
    if each["shares"]:
        told = [f"{quoted(name)} {hits} of {n}" for name, (hits, n) in each["shares"].items()]
        return f"{text}: past it {', '.join(told)}"
    if each["effect"] is None:
        return text
    low, high = (math.nan if end is None else end for end in each["interval"])
    level = f"{100 * each['level']:.3g} % interval"
    ends = f", {level} {bounds(low, high)}" if not math.isnan(low) else ""
    luck = "" if each["of_items"] is None else f" ({each['of_items']:.0%} of its luck: test items)"
    return f"{text}: {each['metric']} {number(each['effect'], (high - low) / 2)}{ends}{luck}"
