"""The trials of a results folder by question, variant and seed, with outcome and score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ablations.commands.columns import print_columns
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.words import listed, quoted

MOST = 40  # lines where nothing is named
MOST_NAMED = 400
HEADINGS = ("question", "variant", "seed", "trial", "outcome", "score")


@dataclass(frozen=True)
class PlacedTrial:
    """One cell of a plan's table, and how far its trial is."""

    question: str
    variant: str
    """With the levels of what is crossed: `post:6`."""
    seed: int
    trial: str
    outcome: str
    stale: bool
    metric: str
    unit: str
    split: str
    role: str

    def score(self, results: Results) -> float | None:
        """What it has reached at its last step; None where it has no record that says so."""
        try:
            return results.score(self.trial, self.metric, self.split)
        except RecordError:
            return None

    def row(self, results: Results, before: PlacedTrial | None) -> list[str]:
        """A line for people, without what the line before it says already."""
        is_next = before is not None and before.question == self.question
        is_same = is_next and before is not None and before.variant == self.variant
        score = self.score(results)
        outcome = self.outcome + (", stale" if self.stale else "")
        outcome += "" if self.role == "report" else f" ({self.role})"
        return [
            "" if is_next else self.question,
            "" if is_same else quoted(self.variant),
            str(self.seed),
            self.trial,
            outcome,
            "—" if score is None else f"{score:.4g} {self.unit}".removesuffix(" 1"),
        ]

    def document(self, results: Results) -> dict[str, Any]:
        return {**asdict(self), "score": self.score(results)}


def places(
    plan: Mapping[str, Any],
    tables: Sequence[str],
    outcomes: Mapping[str, str],
    stale: frozenset[str],
) -> list[PlacedTrial]:
    """Every cell of these tables, in the order of the plan."""
    return [
        PlacedTrial(
            question=name,
            variant=variant_of(cell),
            seed=cell["seed"],
            trial=cell["trial"],
            outcome=outcomes.get(cell["trial"], "waiting"),
            stale=cell["trial"] in stale,
            metric=plan["ablations"][name]["metric"]["name"],
            unit=plan["ablations"][name]["metric"]["unit"],
            split=plan["ablations"][name]["metric"]["split"],
            role=cell["role"],
        )
        for name in tables
        for cell in plan["ablations"][name]["cells"]
    ]


def variant_of(cell: Mapping[str, Any]) -> str:
    """A cell's label with the levels of what is crossed, as one types it: `post:6`."""
    return ":".join((cell["label"], *cell["across"].values()))


def print_places(found: Sequence[PlacedTrial], results: Results, is_named: bool) -> None:
    """The first of them, and how to see the rest."""
    most = MOST_NAMED if is_named else MOST
    shown, rest = found[:most], found[most:]
    before = [None, *shown[:-1]]
    rows = [each.row(results, last) for each, last in zip(shown, before, strict=True)]
    print_columns(HEADINGS, rows, right=("seed",))
    if rest:
        questions = Counter(each.question for each in rest)
        told = listed(list(questions)[:8]) + (" …" if len(questions) > 8 else "")
        how = "--json lists all" if is_named else "`status NAME` lists a question's, --json all"
        print(f"and {len(rest):,} more, of {told}: {how}")
