"""From records to pages: `python -m analysis COMMAND`.

report --results DIR            tables, figures and the page
claims [ID …] --results DIR     every claim with its verdict
figure NAME --results DIR       one figure
compare A B                     two results folders: what changed beyond noise
tensorboard --results DIR --to OUT   learning curves as TensorBoard's event files
publish --results DIR --to OUT  packed records, tables and the page, to be kept beside the code
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ablations.store.schema import RecordError
from ablations.store.words import complain, guarded
from analysis.names import choose

COMMANDS = ("report", "claims", "figure", "compare", "tensorboard", "publish")
PROCESSES = 2  # that draw: a figure takes a third of a second


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 2 for a mistake of the user's, 1 for the system's, told in one line."""
    return guarded(lambda: _answer(arguments))


def _answer(arguments: Sequence[str] | None) -> int:
    parser = _Parser(
        prog="python -m analysis",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", help=", ".join(COMMANDS))
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="a figure, ids of claims, or two results folders"
    )
    parser.add_argument("--results", type=Path, default=Path("results/quick"), metavar="DIR")
    parser.add_argument("--to", type=Path, metavar="OUT", help="the folder to write to")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    try:
        options = parser.parse_args(arguments)
        choose(options.command, COMMANDS, "command")
        if options.command == "figure":
            return _figure(options)
        if options.command == "claims":
            return _claims(options)
        if options.command == "compare":
            return _compare(options)
        if options.names:
            told = f"{options.command} takes no name, but was given {options.names[0][:60]!r}"
            raise ValueError(told)
        if options.command == "tensorboard":
            return _tensorboard(options)
        if options.command == "publish":
            return _publish(options)
        return _report(options)
    except (ValueError, RecordError) as error:
        complain(" ".join(str(error).split()))
        return 2


def _report(options: argparse.Namespace) -> int:
    from analysis import fresh

    paths = fresh.paths(options.results)
    if paths is None:
        from analysis import report
        from analysis.evidence import gather

        seen = fresh.inputs(options.results)
        paths = report.write(gather(options.results), processes=PROCESSES)
        fresh.note(options.results, seen, paths)
    if not options.json:
        print(f"{len(paths) - 1} figures and tables in {options.results}")
        paths = paths[-1:]
    _print_paths(paths, options.json)
    return 0


def _claims(options: argparse.Namespace) -> int:
    from analysis.claims import claims, lines
    from analysis.evidence import gather

    found = claims(gather(options.results), options.names)
    if options.json:
        _print_json(found)
    else:
        for claim in found:
            print("\n".join(lines(claim)))
        if not found:
            print("The plan registers no claims.")
    return 0


def _figure(options: argparse.Namespace) -> int:
    from analysis import figures

    if len(options.names) != 1:
        raise ValueError(f"which figure? one of: {', '.join(figures.names())}")
    (name,) = options.names
    choose(name, figures.names(), "figure")
    from analysis import style
    from analysis.evidence import gather

    evidence = gather(options.results)
    frames = figures.panels(name, evidence)
    if not frames:
        complain(f"nothing to draw yet: no trial of this folder feeds {name!r}")
        return 1
    figure = figures.compose(name, frames)
    _print_paths(style.save(figure, evidence.loaded.root / "figures", name), options.json)
    return 0


def _compare(options: argparse.Namespace) -> int:
    if len(options.names) != 2:
        raise ValueError("compare takes two results folders: python -m analysis compare A B")
    from analysis.compare import compare
    from analysis.compare.words import lines
    from analysis.evidence import gather

    document = compare(*(gather(name) for name in options.names))
    if options.json:
        _print_json(document)
    else:
        print("\n".join(lines(document)))
    return 0


def _tensorboard(options: argparse.Namespace) -> int:
    if options.to is None:
        raise ValueError("tensorboard needs a folder to write to: --to OUT")
    from analysis import tensorboard
    from analysis.load import load

    _print_paths(tensorboard.write(load(options.results), options.to), options.json)
    return 0


def _publish(options: argparse.Namespace) -> int:
    if options.to is None:
        raise ValueError("publish needs a folder to write to: --to OUT")
    from analysis.evidence import gather
    from analysis.reference import FINDINGS, publish

    paths = publish(gather(options.results), options.to)
    if options.json:
        _print_paths(paths, as_json=True)
    else:
        print(f"{len(paths)} files in {options.to}, the findings in {options.to / FINDINGS}")
    return 0


def _print_paths(paths: list[Path], as_json: bool) -> None:
    if as_json:
        _print_json({"paths": [str(path) for path in paths]})
    else:
        print("\n".join(str(path) for path in paths))


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


if __name__ == "__main__":
    sys.exit(main())
