"""The command line: which commands there are, and how their words are read.

Heavy imports wait until a command needs them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ablations.commands import clean, diff, listing, plan, run, show, status
from ablations.launch import Changed
from ablations.plan.source import parse_overrides
from ablations.signals import exit_code, stoppable
from ablations.store.schema import RecordError
from model.arguments import BAD_INPUT, Parser, complain, guarded, print_commands
from model.config import ConfigError, nearest


@dataclass(frozen=True)
class Command:
    meaning: str
    act: Callable[[argparse.Namespace], int]
    arguments: Callable[[argparse.ArgumentParser], None]
    takes_overrides: bool = False
    is_verbatim: bool = False  # = is a letter of its words like any other
    examples: tuple[str, ...] = ()


PROGRAM = "python -m ablations"
COMMANDS = {
    "list": Command(
        "chapters and their experiments",
        listing.act,
        listing.arguments,
        examples=("list", "list norm", "list --claim position.needed"),
    ),
    "plan": Command(
        "what would run, with parameters, time and disk",
        plan.act,
        plan.arguments,
        takes_overrides=True,
        examples=(
            "plan",
            "plan positions --profile smoke",
            "plan norm/g2p --seeds 3 train.optimiser.rate=3e-3 model.d_model=32",
            "plan positions/g2p model.d_model=32,64,128",
        ),
    ),
    "run": Command(
        "run what is missing",
        run.act,
        run.arguments,
        takes_overrides=True,
        examples=(
            "run positions norm/g2p --profile smoke",
            "run --claim position.needed --seeds 10",
            "run heads/text --seeds 0-4 --results results/mine",
            "run my_question.yaml --import my_parts",
        ),
    ),
    "status": Command(
        "what is done, failed, running, stale or waiting",
        status.act,
        status.arguments,
        examples=("status", "status norm --profile smoke", "status --json"),
    ),
    "clean": Command(
        "what can be deleted; with --yes, delete it",
        clean.act,
        clean.arguments,
        examples=("clean --profile smoke", "clean --profile smoke --yes"),
    ),
    "diff": Command(
        "what really differs between two variants",
        diff.act,
        diff.arguments,
        takes_overrides=True,
        examples=(
            "diff norm/g2p:pre norm/g2p:post",
            "diff heads/g2p:'4 heads' heads/g2p:'1 head' model.depth=4",
        ),
    ),
    "show": Command(
        "one trial's record",
        show.act,
        show.arguments,
        examples=("show norm/g2p:post --profile smoke", "show norm/g2p:post:301", "show 1a2b3c"),
    ),
    "try": Command(
        "a trained model's answer to your own input",
        show.try_act,
        show.try_arguments,
        is_verbatim=True,
        examples=(
            "try positions/g2p:sinusoidal transformer --profile smoke",
            "try positions/g2p:sinusoidal --seed 301 attention",
        ),
    ),
}


GONE = {
    "--arms": "every variant runs; name chapters, experiments or --claim ID to run less",
    "--until": "seeds are fixed beforehand; use --seeds N",
    "--budget": "stop with Ctrl-C at any time; the same command goes on from there",
    "--follow": "use `watch python -m ablations status`",
    "--figure": "try prints what each token looked at most",
    "--report": "use `python -m analysis report` when the run has ended",
}
"""Options that were, and what to do instead."""


def main(argv: Sequence[str]) -> int:
    """The exit code of a command: 2 for the user's mistakes, 1 for the system's troubles."""
    _open_standard_descriptors()
    return guarded(lambda: _answer(argv))


def _open_standard_descriptors() -> None:
    """Open /dev/null on any closed standard descriptor: the next file to be opened would take its
    place, and what a library prints would be written into that file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
            os.set_inheritable(number, True)


def _answer(argv: Sequence[str]) -> int:
    try:
        command, options = _parse(argv)
        with stoppable():
            return COMMANDS[command].act(options)
    except (ConfigError, RecordError) as error:
        complain(str(error))
        return BAD_INPUT
    except Changed as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt as stop:
        complain("Stopped. The same command goes on from here.")
        return exit_code(stop)


def _parse(argv: Sequence[str]) -> tuple[str, argparse.Namespace]:
    """Names, options and overrides in any order."""
    words = list(argv)
    if not words or words[0] in ("-h", "--help", "help"):
        meanings = {name: command.meaning for name, command in COMMANDS.items()}
        usage = "[NAME|FILE.yaml …] [options] [path=value …]"
        print_commands(PROGRAM, usage, meanings)
        sys.exit(0 if words else BAD_INPUT)
    word = words.pop(0)
    if word not in COMMANDS:
        raise ConfigError([f"no command '{word[:100]}'. {nearest(word[:100], COMMANDS)}"])
    parser = Parser(
        prog=f"{PROGRAM} {word}",
        description=COMMANDS[word].meaning,
        epilog="\n".join(["examples:", *(f"  {PROGRAM} {e}" for e in COMMANDS[word].examples)]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.allow_abbrev = False
    COMMANDS[word].arguments(parser)
    for each in words[: words.index("--") if "--" in words else None]:
        if (option := each.partition("=")[0]) in GONE:
            raise ConfigError([f"{option} is gone: {GONE[option]}"])
    if COMMANDS[word].is_verbatim:
        return word, parser.parse_intermixed_args(words)
    takes = {o for a in parser._actions if a.nargs is None for o in a.option_strings}
    overrides: list[str] = []
    rest: list[str] = []
    for before, each in zip(["", *words], words, strict=False):
        is_override = "=" in each and not each.startswith("-") and before not in takes
        (overrides if is_override else rest).append(each)
    options = parser.parse_intermixed_args(rest)
    options.overrides, options.factors = parse_overrides(overrides)
    if (options.overrides or options.factors) and not COMMANDS[word].takes_overrides:
        raise ConfigError([f"{word} takes no path=value"])
    return word, options
