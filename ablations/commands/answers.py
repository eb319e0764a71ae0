"""run's last words: what the claims of its questions have come to, and the page."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from ablations.commands.columns import print_columns
from ablations.commands.terminal import complain, working
from ablations.store.words import quoted

if TYPE_CHECKING:
    from ablations.plan.wanted import Plan
    from ablations.store.results import Results
    from analysis.contrasts import Evidence

MOST = 40  # claims, and lines of the table
PROCESSES = 2  # that draw: a figure takes a third of a second
_ARM = ("question", "variant", "score", "difference", "interval", "n", "mark")


def print_answers(plan: Plan, results: Results, claims: Collection[str] = ()) -> None:
    """What `ablations claims` says of each claim of the plan, or of each that was asked for; of
    questions that have none, a line for each arm."""
    with working("Deciding"):
        from ablations.plan.document import titles
        from analysis.claims import claims as judged
        from analysis.claims import lines
        from analysis.contrasts import gather

        ours = titles(plan, results)
        evidence = gather(results.root)
        decided = [
            claim
            for claim in judged(evidence)
            if claim["scope"]["question"] in ours and (not claims or claim["id"] in claims)
        ]
        told = {claim["scope"]["question"] for claim in decided}
        others = [name for name in ours if name not in told and not claims]
        arms = [[ours[row[0]], *row[1:]] for row in _arm_rows(evidence, others)]
    for claim in decided[:MOST]:
        print("\n" + "\n".join(lines(claim)))
    if len(decided) > MOST:
        rest = f"ablations claims --results {results.root}"
        print(f"and {len(decided) - MOST} more: {rest}")
    if arms:
        print()
        print_columns(_ARM, arms[:MOST], ("score", "difference", "n"))
        if len(arms) > MOST:
            rest = f"ablations report --results {results.root}"
            print(f"and {len(arms) - MOST} more: {rest}")


def renew_page(results: Results) -> None:
    """Write the page of a folder and say where it is."""
    with working("Writing the page"):
        from analysis.contrasts import gather
        from analysis.report import write

        *_, page = write(gather(results.root), PROCESSES)
    print(f"\nThe page: {page}")


@contextlib.contextmanager
def harmless() -> Iterator[None]:
    """What is shown of a run does not end it: say what went wrong and go on."""
    try:
        yield
    except Exception as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        complain(f"not shown ({why}); the records are kept")


def _arm_rows(evidence: Evidence, names: Collection[str]) -> list[list[str]]:
    """The arms of these questions, each after its control."""
    frame = evidence.contrasts
    rows: list[list[str]] = []
    shown: set[tuple[str, str]] = set()
    for row in frame[frame["ablation"].isin(names)].to_dict("records"):
        name, across = row["ablation"], row["across"]
        if (name, across) not in shown:
            label = quoted(row["control"]) + (f" [{across}]" if across else "")
            score, n = _number(row["control_mean"]), str(row["control_n"])
            rows.append([name, label, score, "", "", n, "control"])
            shown.add((name, across))
        ends = "" if math.isnan(row["low"]) else f"{row['low']:.3g} to {row['high']:.3g}"
        difference = _number(row["difference"])
        score, n = _number(row["mean"]), str(row["n"])
        rows.append([name, quoted(row["name"]), score, difference, ends, n, row["mark"]])
    return rows


def _number(value: float) -> str:
    return "—" if math.isnan(value) else f"{value:.3g}"
