"""show: one trial's record; try: the trained model's answer to an input of one's own."""

from __future__ import annotations

import json
import re
import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ablations.commands.arguments import place, results_of
from ablations.record import Record, Results, write_atomic
from model.config import ConfigError


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("trial", help="a trial's id, or its first digits")
    place(parser)


def arguments_try(parser: ArgumentParser) -> None:
    arguments(parser)
    parser.add_argument("input", help="what to ask, such as a word; after -- if it starts with -")
    parser.add_argument("--figure", metavar="FILE.svg", help="draw the attention there too")


def act(options: Namespace) -> int:
    print(json.dumps(_find(options)[1].to_dict(), indent=1, ensure_ascii=False))
    return 0


def act_try(options: Namespace) -> int:
    figure = None if options.figure is None else _figure(options.figure)
    results, record = _find(options)
    from ablations.answer import answer
    from ablations.drawing import drawn, picture

    reply = answer(record, results, options.input)
    said = f"{options.input} → {reply.text}    probability {reply.probability:.2g}"
    if reply.runner_up is not None:
        said += " (next: {} with {:.2g})".format(*reply.runner_up)
    print("".join(c if c.isprintable() else "�" for c in said.replace("\n", "⏎")))
    print(f"\n{drawn(reply, shutil.get_terminal_size().columns)}")
    if figure is not None and reply.weights is not None:
        write_atomic(figure, picture(reply))
        print(f"\n{figure}")
    return 0


def _figure(name: str) -> Path:
    path = Path(name)
    if path.suffix != ".svg":
        raise ConfigError(
            [f"--figure {name[:100]}: only SVG is drawn; name a file that ends in .svg"]
        )
    if not path.parent.is_dir():
        raise ConfigError([f"--figure {name[:100]}: no folder {path.parent}; make it first"])
    return path


def _find(options: Namespace) -> tuple[Results, Record]:
    results = results_of(options)
    if not re.fullmatch(r"[0-9a-f]{1,12}", options.trial):
        raise ConfigError([f"'{options.trial[:100]}': a trial's id is up to 12 digits 0-9a-f"])
    found = sorted(path.stem for path in results.trials.glob(f"{options.trial}*.json"))
    if len(found) != 1:
        kind = "no trial" if not found else f"{len(found)} trials"
        raise ConfigError([f"{kind} '{options.trial}…' in {results.root}"])
    record = results.read(found[0])
    assert record is not None
    return results, record
