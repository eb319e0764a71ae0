"""show: one trial's record; try: the trained model's answer to an input of one's own."""

from __future__ import annotations

import json
import re
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
    parser.add_argument("input", help="what to ask, such as a word")
    parser.add_argument("--figure", metavar="FILE.svg", help="draw the attention there too")


def act(options: Namespace) -> int:
    print(json.dumps(_find(options)[1].to_dict(), indent=1, ensure_ascii=False))
    return 0


def act_try(options: Namespace) -> int:
    results, record = _find(options)
    from ablations.answer import answer, drawn, picture

    reply = answer(record, results, options.input)
    print(f"{options.input} → {reply.text}    probability {reply.probability:.2g}\n")
    print(drawn(reply))
    if options.figure:
        write_atomic(Path(options.figure), picture(reply))
        print(f"\n{options.figure}")
    return 0


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
