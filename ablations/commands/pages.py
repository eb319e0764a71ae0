"""From records to pages: report, claims, figure, compare, publish and tensorboard."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.commands.answers import renew_page
from ablations.commands.arguments import as_json, place, results_of
from ablations.commands.terminal import complain
from model.config import ConfigError, nearest

if TYPE_CHECKING:
    from analysis.contrasts import Evidence

LONGEST = 500  # characters of a line: names of any length are allowed

arguments = place


def claims_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("claims", nargs="*", metavar="ID", help="default: every claim")
    place(parser)
    as_json(parser)


def figure_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("kind", metavar="NAME", help="such as forest")
    place(parser)


def compare_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("one", metavar="A", help="a results folder")
    parser.add_argument("other", metavar="B", help="another")
    as_json(parser)


def writing_arguments(parser: ArgumentParser) -> None:
    place(parser)
    parser.add_argument("--to", type=Path, metavar="OUT", required=True, help="where to write")


@contextmanager
def _mistakes() -> Iterator[None]:
    """What analysis refuses is the user's to mend."""
    try:
        yield
    except ValueError as error:
        raise ConfigError([" ".join(str(error).split())]) from None


def _evidence(options: Namespace) -> Evidence:
    folder = results_of(options).root
    from analysis.contrasts import gather

    return gather(folder)


@_mistakes()
def report(options: Namespace) -> int:
    renew_page(results_of(options))
    return 0


@_mistakes()
def claims(options: Namespace) -> int:
    evidence = _evidence(options)
    from analysis.claims import claims, lines

    found = claims(evidence, options.claims)
    if options.json:
        return _print_json(found)
    _print_lines([line for claim in found for line in lines(claim)])
    if not found:
        print("The plan registers no claims.")
    return 0


@_mistakes()
def figure(options: Namespace) -> int:
    from analysis import plots

    if options.kind not in plots.KINDS:
        hint = nearest(options.kind[:100], plots.KINDS)
        raise ConfigError([f"no figure '{options.kind[:100]}'. {hint}"])
    evidence = _evidence(options)
    panels = plots.panels(evidence, [options.kind])
    if not panels:
        complain(f"nothing to draw yet: no trial of this folder feeds '{options.kind}'")
        return 1
    for panel in panels:
        print(*plots.save(panel, evidence.loaded.root / "figures"), sep="\n")
    return 0


@_mistakes()
def compare(options: Namespace) -> int:
    sides = [_evidence(Namespace(results=folder)) for folder in (options.one, options.other)]
    from analysis.compare import compare, lines

    document = compare(*sides)
    if options.json:
        return _print_json(document)
    _print_lines(lines(document))
    return 0


@_mistakes()
def publish(options: Namespace) -> int:
    evidence = _evidence(options)
    from analysis.publish import FINDINGS, publish

    paths = publish(evidence, options.to)
    print(f"{len(paths)} files in {options.to}, the findings in {options.to / FINDINGS}")
    return 0


@_mistakes()
def tensorboard(options: Namespace) -> int:
    folder = results_of(options).root
    from analysis.load import load
    from analysis.tensorboard import write

    print(*write(load(folder), options.to), sep="\n")
    return 0


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        print(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…")


def _print_json(document: object) -> int:
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))
    return 0
