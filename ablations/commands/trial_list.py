"""The trials of a results folder by experiment, variant and seed, with outcome and score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ablations.commands.columns import print_columns
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.words import listed, quoted

MOST = 40  # lines where nothing is named
MOST_NAMED = 400
HEADINGS = ("experiment", "variant", "seed", "trial", "outcome", "score")
Place = Mapping[str, Any]
"""One row of an experiment's table, and how far its trial is."""


def places(
    plan: Mapping[str, Any],
    tables: Sequence[str],
    outcomes: Mapping[str, str],
    stale: frozenset[str],
) -> list[Place]:
    """Every row of these tables, in the order of the plan."""
    return [
        {
            "experiment": name,
            "variant": variant_of(cell),
            "seed": cell["seed"],
            "trial": cell["trial"],
            "outcome": outcomes.get(cell["trial"], "waiting"),
            "stale": cell["trial"] in stale,
            "metric": plan["ablations"][name]["metric"]["name"],
            "unit": plan["ablations"][name]["metric"]["unit"],
            "split": plan["ablations"][name]["metric"]["split"],
            "role": cell["role"],
        }
        for name in tables
        for cell in plan["ablations"][name]["cells"]
    ]


def score(place: Place, results: Results) -> float | None:
    """What a trial has reached at its last step; None where it has no record that says so."""
    try:
        return results.score(place["trial"], place["metric"], place["split"])
    except RecordError:
        return None


def variant_of(cell: Mapping[str, Any]) -> str:
    """A cell's label with the levels of what is crossed, as one types it: `post:6`."""
    return ":".join((cell["label"], *cell["across"].values()))


def print_places(found: Sequence[Place], results: Results, is_named: bool) -> None:
    """The first of them, and how to see the rest."""
    most = MOST_NAMED if is_named else MOST
    shown, rest = found[:most], found[most:]
    rows: list[list[str]] = []
    before: Sequence[str] = ()  # what stands above is not said again
    for each in shown:
        said = [each["experiment"], quoted(each["variant"])]
        reached = score(each, results)
        outcome = each["outcome"] + (", stale" if each["stale"] else "")
        outcome += "" if each["role"] == "report" else f" ({each['role']})"
        value = "—" if reached is None else f"{reached:.4g} {each['unit']}".removesuffix(" 1")
        is_next = said[:1] == before[:1]
        names = ["" if is_next else said[0], "" if said == before else said[1]]
        rows.append([*names, str(each["seed"]), each["trial"], outcome, value])
        before = said
    print_columns(HEADINGS, rows, right=("seed",))
    if rest:
        experiments = Counter(each["experiment"] for each in rest)
        told = listed(list(experiments)[:8]) + (" …" if len(experiments) > 8 else "")
        how = "--json lists all" if is_named else "`status NAME` lists an experiment's, --json all"
        print(f"and {len(rest):,} more, of {told}: {how}")
