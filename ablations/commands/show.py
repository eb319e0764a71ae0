"""show: one trial's record; try: its trained model's answer to your own input."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import import_modules, imports, place, results_of, seed
from ablations.commands.naming import trial_of
from ablations.commands.terminal import working
from ablations.store.record import Record
from ablations.store.results import Results
from model.config import ConfigError


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "trial",
        help="EXPERIMENT:VARIANT, such as norm/g2p:post or norm/g2p:post:301, or an id's digits",
    )
    parser.add_argument(
        "--seed",
        type=seed,
        metavar="N",
        help="of EXPERIMENT:VARIANT; default: the first that is run",
    )
    place(parser)
    imports(parser)


def act(options: Namespace) -> int:
    print(json.dumps(find(options)[1].to_dict(), indent=1, ensure_ascii=False))
    return 0


def find(options: Namespace) -> tuple[Results, Record]:
    """The folder and the record that are meant, with the user's own parts at hand."""
    import_modules(options)
    results = results_of(options)
    trial = trial_of(options.trial, results, options.seed)
    record = results.read(trial)
    if record is None:  # a link that leads nowhere, or deleted since
        raise ConfigError([f"no trial '{trial}…' in {results.root}"])
    return results, record


def try_arguments(parser: ArgumentParser) -> None:
    arguments(parser)
    parser.add_argument("input", help="what to ask, such as a word; after -- if it starts with -")


def try_act(options: Namespace) -> int:
    results, record = find(options)
    with working("Loading torch"):
        from ablations.commands.answer import answer

    with working(f"Reading the data and the weights of {record.trial}"):
        reply = answer(record, results, options.input)
    said = f"{options.input} → {reply.text}    probability {reply.probability:.2g}"
    if reply.runner_up is not None:
        said += " (next: {} with {:.2g})".format(*reply.runner_up)
    print("".join(c if c.isprintable() else "�" for c in said.replace("\n", "⏎")))
    for token, symbol, weight in reply.looked_at():
        print(f"{token} ← {symbol} ({weight:.2g})")
    return 0
