"""`python -m analysis report|claims|figure NAME --results DIR [--json]`: from records to pages."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ablations.store.door import complain, guarded
from ablations.store.schema import RecordError

COMMANDS = ("report", "claims", "figure")
PROCESSES = 2  # that draw: a figure takes a third of a second


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command: 2 for a mistake of the user's, 1 for the system's, told in one line."""
    return guarded(lambda: _answer(arguments))


def _answer(arguments: Sequence[str] | None) -> int:
    parser = _Parser(prog="python -m analysis", description=__doc__)
    parser.add_argument("command", help="report, claims or figure")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a figure, or ids of claims")
    parser.add_argument("--results", type=Path, default=Path("results/quick"), metavar="DIR")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    try:
        options = parser.parse_args(arguments)
        _choose(options.command, COMMANDS, "command")
        if options.command == "figure":
            return _figure(options)
        if options.command == "claims":
            return _claims(options)
        if options.names:
            raise ValueError(f"report takes no name, but was given {options.names[0][:60]!r}")
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
    _choose(name, figures.names(), "figure")
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


def _choose(word: str, known: Sequence[str], kind: str) -> None:
    """Accept a known word; answer any other with the nearest one."""
    if word in known:
        return
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.0)
    raise ValueError(f"no {kind} {word[:60]!r}: did you mean {near[0]!r}?")


def _print_paths(paths: list[Path], as_json: bool) -> None:
    if as_json:
        _print_json({"paths": [str(path) for path in paths]})
    else:
        print("\n".join(str(path) for path in paths))


def _print_json(document: Any) -> None:
    print(json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False))


if __name__ == "__main__":
    sys.exit(main())
