"""The commands that read records: report, claims, figure, compare, publish and tensorboard."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ablations.commands.arguments import results_of
from ablations.commands.status import look, print_chapters
from ablations.commands.terminal import complain, print_json, print_lines, print_table, working
from ablations.store.results import Results
from model.config import ConfigError

if TYPE_CHECKING:
    from ablations.plan import Plan
    from analysis.contrasts import Evidence

MOST_TABLES, MOST_CLAIMS = 8, 20  # printed after a run; the page has all
PROCESSES = 2  # for drawing: a figure takes a third of a second


@contextmanager
def _mistakes() -> Iterator[None]:
    """Report a ValueError of analysis as the user's mistake."""
    try:
        yield
    except ValueError as error:
        raise ConfigError([" ".join(str(error).split())]) from None


def _evidence(results: Results) -> Evidence:
    with working(f"Reading the records of {results.root}"):
        from analysis.contrasts import gather

        return gather(results.root)


@_mistakes()
def report(options: Namespace) -> int:
    write_page(results_of(options))
    return 0


@_mistakes()
def claims(options: Namespace) -> int:
    evidence = _evidence(results_of(options))
    from analysis.claims import claims, lines

    found = claims(evidence, options.claims)
    if options.json:
        print_json(found)
        return 0
    for claim in found:
        print_lines([*lines(claim, evidence), ""])
    if not found:
        print("The plan registers no claims.")
    return 0


@_mistakes()
def figure(options: Namespace) -> int:
    from analysis import plots
    from analysis.wording import check_known

    check_known(options.kind, list(plots.KINDS), "figure")
    evidence = _evidence(results_of(options))
    panels = plots.panels(evidence, [options.kind])
    if not panels:
        complain(f"nothing to draw yet: no trial of this folder feeds '{options.kind}'")
        return 1
    for panel in panels:
        print(*plots.save(panel, evidence.loaded.root / "figures"), sep="\n")
    return 0


@_mistakes()
def compare(options: Namespace) -> int:
    sides = [
        _evidence(results_of(Namespace(results=side))) for side in (options.one, options.other)
    ]
    from analysis.compare import compare, lines

    print_lines(lines(compare(*sides)))
    return 0


@_mistakes()
def publish(options: Namespace) -> int:
    evidence = _evidence(results_of(options))
    from analysis.publish import FINDINGS, publish

    paths = publish(evidence, options.to)
    print(f"{len(paths)} files in {options.to}, the findings in {options.to / FINDINGS}")
    return 0


@_mistakes()
def tensorboard(options: Namespace) -> int:
    from analysis.load import load
    from analysis.tensorboard import write

    print(*write(load(results_of(options).root), options.to), sep="\n")
    return 0


def write_page(results: Results) -> None:
    """Write the page of a results folder and print its path."""
    with working("Writing the page"):
        from analysis.contrasts import gather
        from analysis.report import write

        *_, page = write(gather(results.root), PROCESSES)
    print(f"\nThe page: {page}")


def print_state(plan: Plan, results: Results, number: int, of: int) -> None:
    """Print the progress of a run after a pass, chapter by chapter."""
    from ablations.plan_document import titles

    share = print_chapters(look(results, titles(plan, results))["trials"])
    is_whole = round(share * of, 6) >= number
    print(f"Pass {number} of {of} is done." if is_whole else f"Stopped in pass {number} of {of}.")
    if number < of or not is_whole:
        print(f"Each pass adds a seed, and intervals shrink. Verdicts come with pass {of}.")


def print_answers(plan: Plan, results: Results, asked: Collection[str] = ()) -> None:
    """Print the table of each experiment, then the claims; `asked`: these claims and no table."""
    with working("Judging the claims"):
        from ablations.plan_document import titles
        from analysis import claims
        from analysis.contrasts import gather
        from analysis.tables import contrasts_views

        ours, evidence = titles(plan, results), gather(results.root)
        frame, views = evidence.contrasts, contrasts_views(evidence)
        is_shown = frame["trained"].astype(bool) | frame["difference"].notna()
        shown = set() if asked else {*frame[is_shown]["experiment"]}
        names = [name for name in ours if name in shown]
        found = [
            each
            for each in claims.claims(evidence)
            if each["scope"]["experiment"] in ours and (not asked or each["id"] in asked)
        ]
    for name in names[:MOST_TABLES]:
        view = views[name].drop(columns=["parameters", "FLOPs/token", "note"], errors="ignore")
        columns = [column for column in view if column != "mark" and (view[column] != "").any()]
        print(f"\n{name}")
        print_table([*columns, "mark"], view[[*columns, "mark"]].astype(str).to_numpy().tolist())
    for claim in found[:MOST_CLAIMS]:
        print()
        print_lines(claims.lines(claim, evidence))
    for rest, what in ((names[MOST_TABLES:], "tables"), (found[MOST_CLAIMS:], "claims")):
        if rest:
            print(f"\nand {len(rest)} more {what}: see the page")
