"""show: one trial's record."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import import_modules, imports, place, results_of, seed
from ablations.commands.naming import trial_of
from ablations.store.record import Record
from ablations.store.results import Results
from model.config import ConfigError


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "trial", help="QUESTION:VARIANT, such as norm:post or norm:post:201, or an id's digits"
    )
    parser.add_argument(
        "--seed", type=seed, metavar="N", help="of QUESTION:VARIANT; default: the first that is run"
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
