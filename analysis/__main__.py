"""From records to pages: `python -m analysis COMMAND`.

report --results DIR            tables, figures and the page
claims [ID …] --results DIR     every claim with its verdict
figure NAME --results DIR       the figures of one kind
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
from analysis.names import choose, short

PROCESSES = 2  # that draw: a figure takes a third of a second
LONGEST = 500  # characters of a line: names of any length are allowed


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
        choose(options.command, list(COMMANDS), "command")
        if options.names and options.command in ("report", "tensorboard", "publish"):
            told = f"{options.command} takes no name, but was given {options.names[0][:60]!r}"
            raise ValueError(told)
        if options.to is None and options.command in ("tensorboard", "publish"):
            raise ValueError(f"{options.command} needs a folder to write to: --to OUT")
        return COMMANDS[options.command](options)
    except (ValueError, RecordError) as error:
        complain(" ".join(str(error).split()))
        return 2


def _folder(path: str | Path) -> Path:
    """A results folder; a file under that name is refused."""
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{str(path)[:200]!r} is a file: name a results folder")
    return folder


def _gather(path: str | Path) -> Any:
    from analysis.contrasts import gather

    return gather(_folder(path))


def _report(options: argparse.Namespace) -> int:
    evidence = _gather(options.results)
    from analysis import report

    paths = report.write(evidence, processes=PROCESSES)
    if not options.json:
        print(f"{len(paths) - 1} figures and tables in {options.results}")
        paths = paths[-1:]
    return _print_paths(paths, options.json)


def _claims(options: argparse.Namespace) -> int:
    evidence = _gather(options.results)
    from analysis.claims import claims, lines

    found = claims(evidence, options.names)
    if options.json:
        return _print_json(found)
    for claim in found:
        print("\n".join(short(line, LONGEST) for line in lines(claim)))
    if not found:
        print("The plan registers no claims.")
    return 0


def _figure(options: argparse.Namespace) -> int:
    from analysis import plots

    if len(options.names) != 1:
        raise ValueError(f"which figure? one of: {', '.join(plots.KINDS)}")
    (name,) = options.names
    choose(name, list(plots.KINDS), "figure")
    evidence = _gather(options.results)
    panels = plots.panels(evidence, [name])
    if not panels:
        complain(f"nothing to draw yet: no trial of this folder feeds {name!r}")
        return 1
    folder = evidence.loaded.root / "figures"
    return _print_paths([p for panel in panels for p in plots.save(panel, folder)], options.json)


def _compare(options: argparse.Namespace) -> int:
    if len(options.names) != 2:
        raise ValueError("compare takes two results folders: python -m analysis compare A B")
    sides = [_gather(name) for name in options.names]
    from analysis.compare import compare, lines

    document = compare(*sides)
    if options.json:
        return _print_json(document)
    print("\n".join(short(line, LONGEST) for line in lines(document)))
    return 0


def _tensorboard(options: argparse.Namespace) -> int:
    from analysis import tensorboard
    from analysis.load import load

    return _print_paths(tensorboard.write(load(_folder(options.results)), options.to), options.json)


def _publish(options: argparse.Namespace) -> int:
    evidence = _gather(options.results)
    from analysis.publish import FINDINGS, publish

    paths = publish(evidence, options.to)
    if options.json:
        return _print_paths(paths, as_json=True)
    print(f"{len(paths)} files in {options.to}, the findings in {options.to / FINDINGS}")
    return 0


def _print_paths(paths: list[Path], as_json: bool) -> int:
    if as_json:
        return _print_json({"paths": [str(path) for path in paths]})
    print("\n".join(str(path) for path in paths))
    return 0


def _print_json(document: Any) -> int:
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))
    return 0


COMMANDS = {
    "report": _report,
    "claims": _claims,
    "figure": _figure,
    "compare": _compare,
    "tensorboard": _tensorboard,
    "publish": _publish,
}

if __name__ == "__main__":
    sys.exit(main())
