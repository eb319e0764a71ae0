"""The command-line program: its commands and their arguments. Slow imports wait until needed."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ablations.commands import clean, describe, diff, listing, pages, plan, run, show, status, tune
from ablations.commands.arguments import ARGUMENTS
from ablations.commands.terminal import BAD_INPUT, Parser, guarded
from ablations.config import parse_overrides
from ablations.signals import stoppable
from model.config import ConfigError, nearest

SETTABLE = ("plan", "run", "tune", "diff", "describe")  # these take path=value
_FOLDER = "--profile --results"
_TRIALS = f"names --claim {_FOLDER} --import --rerun --large"
_MACHINE = "--jobs --device --pack"
_LAUNCH = f"{_MACHINE} --devices --limit --on --address --trust-cluster --cluster"
COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, str, tuple[str, ...]]] = {
    "list": (
        listing.act, "names --claim --json", "chapters and their experiments",
        ("", "norm", "--claim position.needed"),
    ),
    "plan": (
        plan.act, f"{_TRIALS} --seeds {_MACHINE} --json",
        "what would run, with parameters and time",
        ("", "positions --profile smoke", "positions/g2p model.d_model=32,64,128",
         "norm/g2p --seeds 3 train.optimizer.lr=3e-3 model.d_model=32"),
    ),
    "run": (
        run.act, f"{_TRIALS} --seeds {_LAUNCH}", "run what is missing",
        ("positions norm/g2p --profile smoke", "--claim position.needed --seeds 10",
         "heads/text --seeds 0-4 --results results/mine", "my_question.yaml --import my_parts"),
    ),
    "tune": (
        tune.act, f"{_TRIALS} {_LAUNCH}", "choose each variant's settings, for later runs",
        ("norm/g2p", "positions --profile full --jobs 2"),
    ),
    "status": (
        status.act, f"names --claim --json {_FOLDER}",
        "what is done, failed, running, stale or waiting", ("", "norm --profile smoke", "--json"),
    ),
    "show": (
        show.act, f"trial {_FOLDER} --import",
        "one trial: its outcome, settings and measurements",
        ("norm/g2p:post --profile smoke", "norm/g2p:post:301", "1a2b3c"),
    ),
    "diff": (
        diff.act, "variants --profile --import", "what really differs between two variants",
        ("norm/g2p:pre norm/g2p:post", "heads/g2p:'4 heads' heads/g2p:'1 head' model.depth=4"),
    ),
    "try": (
        show.try_act, f"trial {_FOLDER} --import input",
        "a trained model's answer to your own input",
        ("positions/g2p:sinusoidal transformer --profile smoke",
         "positions/g2p:sinusoidal:301 attention"),
    ),
    "clean": (
        clean.act, f"{_FOLDER} --yes", "what can be deleted; with --yes, delete it",
        ("--profile smoke", "--profile smoke --yes"),
    ),
    "describe": (
        describe.act, "preset --length --vocabulary --json",
        "a model's structure, parameters, FLOPs and memory; no weight is made",
        ("gpt2 --length 256", "n_heads=8 position=rotary mixer.n_kv_heads=2"),
    ),
    "report": (
        pages.report, _FOLDER, "tables, figures and the page", ("", "--results results/mine")
    ),
    "claims": (
        pages.claims, f"claims {_FOLDER} --json", "every claim with its verdict",
        ("", "position.needed --profile full"),
    ),
    "figure": (
        pages.figure, f"kind {_FOLDER}", "the figures of one kind", ("forest --profile smoke",)
    ),
    "compare": (
        pages.compare, "one other", "two results folders: what changed beyond noise",
        ("results/quick results/theirs",),
    ),
    "publish": (
        pages.publish, f"{_FOLDER} --to",
        "packed records, tables and the page, to be kept beside the code",
        ("--results results/quick --to results/reference",),
    ),
    "tensorboard": (
        pages.tensorboard, f"{_FOLDER} --to", "learning curves as TensorBoard's event files",
        ("--to curves",),
    ),
}  # fmt: skip
"""Command → its function, its ARGUMENTS, its help and examples."""


def parsers() -> tuple[Parser, Mapping[str, Parser]]:
    """The parser of the program, and the parser of each command."""
    program = Parser(
        prog="ablations",
        description="Does this piece of the transformer matter? Run experiments, read the answers.",
        epilog="ablations COMMAND --help lists a command's options and shows examples.",
    )
    commands = program.add_subparsers(metavar="COMMAND", title="commands")
    for name, (act, arguments, meaning, examples) in COMMANDS.items():
        lines = [f"  ablations {name} {each}".rstrip() for each in examples]
        parser = commands.add_parser(
            name,
            help=meaning,
            description=meaning,
            epilog="\n".join(["examples:", *lines]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        for argument in arguments.split():
            if argument.startswith("-"):
                parser.add_argument(argument, **ARGUMENTS[argument])
            else:
                parser.add_argument(**{"dest": argument, **ARGUMENTS[argument]})
        parser.set_defaults(command=name, act=act)
    return program, commands.choices


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code of a command: 2 for the user's mistakes, 1 for the system's troubles."""
    _open_standard_descriptors()

    def command() -> int:
        options = parse(sys.argv[1:] if argv is None else argv)
        with stoppable():
            return int(options.act(options))

    return guarded(command)


def _open_standard_descriptors() -> None:
    """Open /dev/null on closed standard descriptors, or output would go to the next opened file."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # `open` takes the lowest free descriptor: this one
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """A command's names, options and overrides, in any order."""
    program, commands = parsers()
    if not argv or argv[0] in ("-h", "--help", "help"):
        program.print_help()
        sys.exit(0 if argv else BAD_INPUT)
    name = argv[0]
    if name not in commands:
        raise ConfigError([f"no command '{name[:100]}'. {nearest(name[:100], commands)}"])
    options = commands[name].parse_intermixed_args(list(argv[1:]))
    words = getattr(options, "names", [])
    options.names = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    if overrides and name not in SETTABLE:
        raise ConfigError([f"{name} takes no path=value"])
    options.overrides, options.factors = parse_overrides(overrides)
    return options
