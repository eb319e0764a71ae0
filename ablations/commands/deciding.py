"""run --until decided: a few seeds first, and more where a claim is still open."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ablations.commands.arguments import plan_of
from ablations.store.seeds import DECIDING
from model.arguments import complain

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results

Asked = dict[tuple[str, str], list[int]]


def decide(
    plan: Plan, options: Namespace, results: Results, sweep: Callable[[Plan], Counter[str]]
) -> tuple[Counter[str], Plan]:
    """Run a plan of the first look; then what open claims ask for, look by look."""
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
        more = asked | _asks(plan, results, options.claim)
        if more == asked or ended[UNBEGUN]:
            return counts, plan
        asked = more
        complain(f"Undecided after {_seeds(plan)} seeds: {_told(more)}")
        plan = plan_of(options, spent=Spent(first_look(), asked))


def first_look() -> tuple[int, ...]:
    """The seeds that every arm takes."""
    from analysis.stats import LEVEL_LOOKS

    return DECIDING[: LEVEL_LOOKS.seeds[0]]


def _asks(plan: Plan, results: Results, claims: Sequence[str]) -> Asked:
    """(table, variant) → the seeds that a claim of this plan asks for: of these, where some are
    named."""
    from ablations.plan.document import titles
    from analysis.load import load
    from analysis.verdicts import verdicts

    words = titles(plan, results)
    found: dict[tuple[str, str], int] = {}
    for verdict in verdicts(load(results.root)):
        is_asked = not claims or verdict.id in claims
        word = words.get(verdict.scope["question"], "") if is_asked else ""
        for label, n in verdict.asks.items() if word else ():
            found[word, label] = max(n, found.get((word, label), 0))
    first = len(first_look())  # which every arm has been given already
    return {place: list(DECIDING[:n]) for place, n in found.items() if n > first}


def _seeds(plan: Plan) -> int:
    return max((len({c.seed for c in t.cells}) for t in plan.tables.values()), default=0)


def _told(more: Asked) -> str:
    names = dict.fromkeys(table for table, _ in more)
    return f"{', '.join(names)}; up to {max(map(len, more.values()))} seeds there"
