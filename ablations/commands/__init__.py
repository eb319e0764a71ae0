"""The command line: one program with every command, and how its words are read.

Heavy imports wait until a command needs them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ablations.commands import clean, describe, diff, listing, pages, plan, run, show, status
from ablations.commands.terminal import BAD_INPUT, Parser, complain, guarded
from ablations.config import parse_overrides
from ablations.launch import Changed
from ablations.signals import exit_code, stoppable
from ablations.store.schema import RecordError
from model.config import ConfigError, nearest

GONE = {
    "--arms": "every variant runs; name chapters, experiments or --claim ID to run less",
    "--until": "seeds are fixed beforehand; use --seeds N",
    "--budget": "stop with Ctrl-C at any time; the same command goes on from there",
    "--follow": "use `watch ablations status`",
    "--figure": "try prints what each token looked at most",
    "--report": "use `ablations report` when the run has ended",
}
"""Options that were, and what to do instead."""
SETTABLE = ("plan", "run", "diff", "describe")  # these take path=value
VERBATIM = ("try", "compare")  # in their words = is a letter like any other


def parsers() -> tuple[Parser, Mapping[str, Parser]]:
    """The program, and each of its commands."""
    program = Parser(
        prog="ablations",
        description="Does this piece of the transformer matter? Run experiments, read the answers.",
        epilog="ablations COMMAND --help lists a command's options and shows examples.",
    )
    commands = program.add_subparsers(metavar="COMMAND", title="commands")

    def add(
        name: str,
        act: Callable[[argparse.Namespace], int],
        arguments: Callable[[Parser], None],
        meaning: str,
        *examples: str,
    ) -> None:
        shown = "\n".join(["examples:", *(f"  ablations {name} {e}".rstrip() for e in examples)])
        parser = commands.add_parser(
            name,
            help=meaning,
            description=meaning,
            epilog=shown if examples else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        arguments(parser)
        parser.set_defaults(command=name, act=act)

    add("list", listing.act, listing.arguments, "chapters and their experiments",
        "", "norm", "--claim position.needed")  # fmt: skip
    add("plan", plan.act, plan.arguments, "what would run, with parameters and time",
        "", "positions --profile smoke", "positions/g2p model.d_model=32,64,128",
        "norm/g2p --seeds 3 train.optimizer.lr=3e-3 model.d_model=32")  # fmt: skip
    add("run", run.act, run.arguments, "run what is missing",
        "positions norm/g2p --profile smoke", "--claim position.needed --seeds 10",
        "heads/text --seeds 0-4 --results results/mine",
        "my_question.yaml --import my_parts")  # fmt: skip
    add("status", status.act, status.arguments, "what is done, failed, running, stale or waiting",
        "", "norm --profile smoke", "--json")  # fmt: skip
    add("show", show.act, show.arguments, "one trial's record",
        "norm/g2p:post --profile smoke", "norm/g2p:post:301", "1a2b3c")  # fmt: skip
    add("diff", diff.act, diff.arguments, "what really differs between two variants",
        "norm/g2p:pre norm/g2p:post",
        "heads/g2p:'4 heads' heads/g2p:'1 head' model.depth=4")  # fmt: skip
    add("try", show.try_act, show.try_arguments, "a trained model's answer to your own input",
        "positions/g2p:sinusoidal transformer --profile smoke",
        "positions/g2p:sinusoidal --seed 301 attention")  # fmt: skip
    add("clean", clean.act, clean.arguments, "what can be deleted; with --yes, delete it",
        "--profile smoke", "--profile smoke --yes")  # fmt: skip
    add("describe", describe.act, describe.arguments, describe.MEANING,
        "gpt2 --length 256", "n_heads=8 position=rotary mixer.n_kv_heads=2")  # fmt: skip
    add("report", pages.report, pages.arguments, "tables, figures and the page",
        "", "--results results/mine")  # fmt: skip
    add("claims", pages.claims, pages.claims_arguments, "every claim with its verdict",
        "", "position.needed --profile full")  # fmt: skip
    add("figure", pages.figure, pages.figure_arguments, "the figures of one kind",
        "forest --profile smoke")  # fmt: skip
    add("compare", pages.compare, pages.compare_arguments,
        "two results folders: what changed beyond noise",
        "results/quick results/theirs")  # fmt: skip
    add("publish", pages.publish, pages.writing_arguments,
        "packed records, tables and the page, to be kept beside the code",
        "--results results/quick --to results/reference")  # fmt: skip
    add("tensorboard", pages.tensorboard, pages.writing_arguments,
        "learning curves as TensorBoard's event files", "--to curves")  # fmt: skip
    return program, commands.choices


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of a command: 2 for the user's mistakes, 1 for the system's troubles."""
    _open_standard_descriptors()
    return guarded(lambda: _answer(sys.argv[1:] if argv is None else argv))


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
        options = parse(argv)
        with stoppable():
            return options.act(options)
    except (ConfigError, RecordError) as error:
        complain(str(error))
        return BAD_INPUT
    except Changed as error:
        complain(str(error))
        return 1
    except KeyboardInterrupt as stop:
        complain("Stopped. The same command goes on from here.")
        return exit_code(stop)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """A command's names, options and overrides, in any order."""
    program, commands = parsers()
    if not argv or argv[0] in ("-h", "--help", "help"):
        program.print_help()
        sys.exit(0 if argv else BAD_INPUT)
    name, words = argv[0], list(argv[1:])
    if name not in commands:
        raise ConfigError([f"no command '{name[:100]}'. {nearest(name[:100], commands)}"])
    for each in words[: words.index("--") if "--" in words else None]:
        if (option := each.partition("=")[0]) in GONE:
            raise ConfigError([f"{option} is gone: {GONE[option]}"])
    parser = commands[name]
    takes = {o for a in parser._actions if a.nargs is None for o in a.option_strings}
    overrides: list[str] = []
    rest: list[str] = []
    for before, each in zip(["", *words], words, strict=False):
        is_override = "=" in each and not each.startswith("-") and before not in takes
        (overrides if is_override and name not in VERBATIM else rest).append(each)
    if overrides and name not in SETTABLE:
        raise ConfigError([f"{name} takes no path=value"])
    options = parser.parse_intermixed_args(rest)
    options.overrides, options.factors = parse_overrides(overrides)
    return options
