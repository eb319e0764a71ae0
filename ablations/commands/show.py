"""show: one trial's record."""

from __future__ import annotations

import json
import re
from argparse import ArgumentParser, Namespace

from ablations.commands.arguments import place, results_of
from ablations.store.record import Record
from ablations.store.results import Results
from model.config import ConfigError


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("trial", help="a trial's id, or its first digits")
    place(parser)


def act(options: Namespace) -> int:
    print(json.dumps(find(options)[1].to_dict(), indent=1, ensure_ascii=False))
    return 0


def find(options: Namespace) -> tuple[Results, Record]:
    results = results_of(options)
    if not re.fullmatch(r"[0-9a-f]{1,12}", options.trial):
        raise ConfigError([f"'{options.trial[:100]}': a trial's id is up to 12 digits 0-9a-f"])
    found = sorted(path.stem for path in results.trials.glob(f"{options.trial}*.json"))
    if len(found) != 1:
        kind = "no trial" if not found else f"{len(found)} trials"
        raise ConfigError([f"{kind} '{options.trial}…' in {results.root}"])
    record = results.read(found[0])
    if record is None:  # a link that leads nowhere, or deleted since
        raise ConfigError([f"no trial '{options.trial}…' in {results.root}"])
    return results, record
