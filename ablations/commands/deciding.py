"""run --until decided: a few seeds first, and more where a claim is still open."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ablations.commands.arguments import plan_of
from ablations.store.seeds import DECIDING, LOOKS
from model.arguments import complain

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results

Asked = dict[tuple[str, str], list[int]]


def decide(
    plan: Plan,
    options: Namespace,
    results: Results,
    sweep: Callable[[Plan], Counter[str]],
    later: Callable[[Plan], Counter[str]],
) -> tuple[Counter[str], Plan]:
    """Run a plan of the first look; then what open claims ask for, look by look.

    A first look of a claim that takes more seeds than the others' comes before any second.
    """
    from ablations.plan.wanted import Spent
    from ablations.store.schema import FAILED
    from ablations.sweep.runner import EARLIER, UNBEGUN

    counts: Counter[str] = Counter()
    asked: Asked = {}
    while True:
        ended = sweep(plan)
        failed = sum(counts[status] for status in FAILED)  # at earlier looks of this command
        ended[EARLIER] = max(0, ended[EARLIER] - failed)
        counts = Counter({k: n for k, n in counts.items() if k != EARLIER}) + ended
        unseen, every = _asks(plan, results, options.claim)
        is_first = bool(unseen) and (asked | unseen) != asked
        more = asked | (unseen if is_first else every)
        if more == asked or ended[UNBEGUN]:
            return counts, plan
        asked = more
        complain(f"Still undecided: {_told(more)}")
        plan = plan_of(options, spent=Spent(first_look(), asked))
        sweep = sweep if is_first else later


def first_look() -> tuple[int, ...]:
    """The seeds that every arm takes."""
    return DECIDING[: LOOKS[0]]


def _asks(plan: Plan, results: Results, claims: Sequence[str]) -> tuple[Asked, Asked]:
    """(table, variant) → the seeds that a claim of this plan asks for: of these, where some are
    named. First by claims that nobody has looked at yet, then by all."""
    from ablations.plan.document import titles
    from analysis.load import load
    from analysis.verdicts import verdicts

    words = titles(plan, results)
    unseen: dict[tuple[str, str], int] = {}
    every: dict[tuple[str, str], int] = {}
    for verdict in verdicts(load(results.root)):
        is_asked = not claims or verdict.id in claims
        word = words.get(verdict.scope["question"], "") if is_asked else ""
        for label, n in verdict.asks.items() if word else ():
            for found in (unseen, every) if verdict.is_unseen else (every,):
                found[word, label] = max(n, found.get((word, label), 0))
    return _seeds_of(unseen), _seeds_of(every)


def _seeds_of(found: Mapping[tuple[str, str], int]) -> Asked:
    first = len(first_look())  # which every arm has been given already
    return {place: list(DECIDING[:n]) for place, n in found.items() if n > first}


def _told(more: Asked) -> str:
    names = dict.fromkeys(table for table, _ in more)
    return f"{', '.join(names)}; up to {max(map(len, more.values()))} seeds there"
