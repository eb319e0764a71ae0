"""try: the trained model's answer to an input of one's own, and what it looked at."""

from __future__ import annotations

import shutil
from argparse import ArgumentParser, Namespace
from pathlib import Path

from ablations.commands.show import arguments as arguments_of_show
from ablations.commands.show import find
from ablations.store.files import write_atomic
from model.arguments import working
from model.config import ConfigError


def arguments(parser: ArgumentParser) -> None:
    arguments_of_show(parser)
    parser.add_argument("input", help="what to ask, such as a word; after -- if it starts with -")
    parser.add_argument("--figure", metavar="FILE.svg", help="draw the attention there too")


def act(options: Namespace) -> int:
    figure = None if options.figure is None else _figure(options.figure)
    results, record = find(options)
    with working("Loading torch"):
        from ablations.commands.answer import answer
        from ablations.commands.drawing import drawn, picture

    with working(f"Reading the data and the weights of {record.trial}"):
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
