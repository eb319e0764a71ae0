"""run's last words: what the claims of its questions have come to, and the next command."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ablations.commands.columns import print_columns
from ablations.store.words import quoted
from model.arguments import working

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results
    from analysis.load import Loaded
    from analysis.verdicts import Verdict

MOST = 40  # lines of each kind
_CLAIM = ("claim", "verdict", "effect", "interval", "n", "question")
_ARM = ("question", "variant", "score", "difference", "interval", "n", "verdict")


def print_answers(plan: Plan, results: Results, claims: Collection[str] = ()) -> None:
    """A line for each claim of the plan, or each of those that were asked for; of questions that
    have none, a line for each arm."""
    with working("Deciding"):
        from ablations.plan.document import titles
        from analysis.load import load
        from analysis.verdicts import verdicts

        ours = titles(plan, results)
        loaded = load(results.root)
        decided = [
            each
            for each in verdicts(loaded)
            if each.scope["question"] in ours and (not claims or each.id in claims)
        ]
        told = {each.scope["question"] for each in decided}
        others = [name for name in ours if name not in told and not claims]
        arms = [[ours[name], *rest] for name, *rest in _arm_rows(loaded, others)]
    if decided:
        print()
        counts = Counter(each.verdict for each in decided)
        print(", ".join(f"{number} {word}" for word, number in counts.most_common()))
        rows = [_claim_row(each, ours) for each in decided]
        _print_capped(_CLAIM, rows, ("n",), "claims", results)
    if arms:
        print()
        _print_capped(_ARM, arms, ("score", "difference", "n"), "report", results)


def next_command(results: Results, has_page: bool) -> str:
    """What to type next: where the page is made already, what it says of each claim."""
    command = "claims" if has_page else "report"
    return f"Next: python -m analysis {command} --results {results.root}"


def _print_capped(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[str],
    command: str,
    results: Results,
) -> None:
    print_columns(headings, rows[:MOST], right)
    if len(rows) > MOST:
        rest = f"python -m analysis {command} --results {results.root}"
        print(f"and {len(rows) - MOST} more: {rest}")


def _claim_row(each: Verdict, words: Mapping[str, str]) -> list[str]:
    from analysis.sentences import bounds, number

    first = each.evidence[0]
    low, high = map(_finite, first["interval"])
    effect = number(_finite(first["effect"]), (high - low) / 2)
    shares = first["shares"] or {}
    if shares:
        effect = ", ".join(f"{quoted(name)} {hits}/{n}" for name, (hits, n) in shares.items())
    elif effect:
        effect = f"{first['metric']} {effect}"
    reason = f" ({each.reason})" if each.reason else ""
    ends = bounds(low, high)
    question = words[each.scope["question"]]
    return [each.id, f"{each.verdict}{reason}", effect, ends, str(each.n), question]


def _finite(value: float | None) -> float:
    """What is not known, and what is not a number of this world, is told as nothing."""
    return value if value is not None and math.isfinite(value) else math.nan


def _arm_rows(loaded: Loaded, names: Collection[str]) -> list[list[str]]:
    """The arms of these questions, each after its control."""
    from analysis.contrasts import contrasts

    frame = contrasts(loaded)
    rows: list[list[str]] = []
    shown: set[tuple[str, str]] = set()
    for row in frame[frame["ablation"].isin(names)].to_dict("records"):
        place = row["ablation"], row["across"]
        if place not in shown:
            label = quoted(row["control"]) + (f" [{row['across']}]" if row["across"] else "")
            score = _score(row["control_mean"], row["control_low"], row["control_high"])
            rows.append([row["ablation"], label, score, "", "", str(row["control_n"]), "control"])
            shown.add(place)
        rows.append(_arm_row(row))
    return rows


def _arm_row(row: Mapping[str, Any]) -> list[str]:
    from analysis.sentences import bounds, number

    ends = bounds(row["low"], row["high"])
    difference = number(row["difference"], (row["high"] - row["low"]) / 2)
    score = _score(row["mean"], row["mean_low"], row["mean_high"])
    name = quoted(row["name"])
    return [row["ablation"], name, score, difference, ends, str(row["n"]), row["verdict"]]


def _score(mean: float, low: float, high: float) -> str:
    from analysis.sentences import number

    return number(mean, (high - low) / 2) if not math.isnan(mean) else "—"
