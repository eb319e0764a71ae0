"""Words that several commands understand, and what they stand for."""

from __future__ import annotations

import gc
import importlib
import math
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.commands.terminal import working
from ablations.spec import PROFILES, chosen, experiments, find_profile, read_experiment
from ablations.store.identity import DECIDING, TUNING
from ablations.store.results import Results
from ablations.store.words import listed
from model.config import ConfigError, nearest

if TYPE_CHECKING:
    import torch

    from ablations.plan.wanted import Plan

_MANY = 1_000_000


def names(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="chapters, experiments or files; default: all"
    )
    parser.add_argument(
        "--claim", action="append", default=[], metavar="ID", help="the experiments that decide it"
    )


def names_of(options: Namespace) -> list[str]:
    """The words for experiments: those given, and those that decide the claims."""
    if not options.claim:
        return list(options.names)
    profile = getattr(options, "profile", PROFILES[-1])
    find_profile(profile)
    deciding: dict[str, list[str]] = {}
    for name, path in experiments().items():
        experiment, _ = read_experiment(path)
        for claim, _ in experiment.predictions if experiment.is_for(profile) else ():
            deciding.setdefault(claim.id, []).append(name)
    for claim in options.claim:
        if claim not in deciding:
            raise ConfigError([f"--claim {claim[:100]}: no such claim. {nearest(claim, deciding)}"])
    return list(dict.fromkeys([*options.names, *(n for c in options.claim for n in deciding[c])]))


def as_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")


def profile(parser: ArgumentParser) -> None:
    parser.add_argument("--profile", default="quick", help="smoke, quick, full or gpu")


def place(parser: ArgumentParser) -> None:
    profile(parser)
    parser.add_argument("--results", metavar="DIR", help="default: results/<profile>")


def trials(parser: ArgumentParser) -> None:
    """What decides which trials there are."""
    names(parser)
    place(parser)
    parser.add_argument(
        "--seeds", type=_seeds, metavar="N", help="the first N reported seeds, or 300-304, or 7,8"
    )
    imports(parser)
    parser.add_argument("--rerun", choices=("stale", "failed"), help="make these records anew")
    parser.add_argument("--large", action="store_true", help="also more than 20,000 trials")


def imports(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module with parts of your own",
    )


def machine(parser: ArgumentParser) -> None:
    """Where the trials run, and how many at once."""
    parser.add_argument(
        "--jobs", type=count, help="jobs at once; default: one per usable core or accelerator"
    )
    parser.add_argument("--device", help="default: the accelerator if there is one, else cpu")
    parser.add_argument(
        "--pack",
        type=partial(count, option="--pack"),
        default=1,
        metavar="N",
        help="seeds in a pass, which train as one model; default: 1",
    )


@dataclass(frozen=True)
class Machine:
    """A device, and the number of jobs that run on it, or on all of its kind, at once."""

    device: torch.device
    jobs: int
    accelerators: int = 1
    """Of its kind, in all; the cores are one device."""
    pack: int = 1
    """How many seeds of an arm are trained as one model."""
    devices: int = 1
    """How many train one trial."""

    @property
    def at_once(self) -> int:
        """How many really go on side by side: more jobs than cores or devices take turns."""
        held = cores() if self.device.type == "cpu" else self.accelerators
        return min(self.jobs, _room(held, self.devices))

    @property
    def share(self) -> float:
        """Of an accelerator, for each device of a trial that has it alone."""
        return 0.0 if self.device.type == "cpu" else 1.0

    @property
    def workers(self) -> int:
        """Jobs side by side on one device."""
        return max(1, self.jobs // self.accelerators)

    def __str__(self) -> str:
        if self.device.type != "cpu":
            held = self.accelerators
            return f"{held} × {self.device}" if held > 1 else str(self.device)
        used = self.at_once * self.devices
        return f"{used} core{'s' * (used > 1)}"


def machine_of(options: Namespace) -> Machine:
    from ablations.train.device import check_devices, how_many, pick_device

    device, devices = pick_device(options.device), getattr(options, "devices", 1)
    check_devices(devices, device)
    accelerators = 1 if device.type == "cpu" else how_many(device)
    held = cores() if device.type == "cpu" else accelerators
    jobs = options.jobs or _room(held, devices)
    return Machine(device, jobs, accelerators, packing_of(options), devices)


def packing_of(options: Namespace) -> int:
    if getattr(options, "devices", 1) > 1 and options.pack > 1:
        raise ConfigError(["--pack and --devices do not go together: leave one out"])
    return int(options.pack)


def _room(held: int, devices: int) -> int:
    """How many trials on so many devices each have them to themselves; one at least."""
    return max(1, held // devices)


def cores() -> int:
    """How many processors this process may use; that may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _seeds(text: str) -> list[int]:
    """`5`: the first five of the reported seeds; `300-304`, `300,302` or both: these."""
    if text.isdecimal() and len(text) < 19:
        if not 1 <= int(text) <= len(DECIDING):
            most, example = len(DECIDING), f"{text}-{text}"
            raise ArgumentTypeError(
                f"--seeds {text}: how many, from 1 to {most}; one seed by its number: {example}"
            )
        return list(DECIDING[: int(text)])
    seeds: list[int] = []
    for part in text.split(","):
        ends = part.split("-")
        if not 1 <= len(ends) <= 2 or not all(end.isdecimal() and len(end) < 19 for end in ends):
            raise ArgumentTypeError(
                f"--seeds {text}: expected how many, such as 5, or which, such as 300-304"
            )
        first, last = int(ends[0]), int(ends[-1])
        if not first <= last < first + _MANY:
            raise ArgumentTypeError(f"--seeds {part}: from a number to a larger one")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise ArgumentTypeError(f"--seeds {text}: a seed stands twice")
    if chosen_with := set(seeds) & set(TUNING):
        raise ArgumentTypeError(
            f"--seeds {text}: {min(chosen_with)} is of those that choose settings; take others"
        )
    return seeds


def seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise ArgumentTypeError(f"--seed {text}: expected a whole number from 0")
    return int(text)


def count(text: str, option: str = "--jobs") -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{option} {text}: expected a whole number from 1")
    return int(text)


def duration(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ArgumentTypeError(f"--limit {text}: expected a number of seconds above 0")
    return seconds


def results_of(options: Namespace) -> Results:
    if options.results is None:
        return Results(Path("results", find_profile(options.profile).stem))
    name = options.results
    if not name or "\0" in name:
        raise ConfigError([f"--results {name[:100]!r}: not the name of a folder"])
    for path in (Path(name), *Path(name).parents):
        if os.path.lexists(path):
            if not path.is_dir():
                raise ConfigError([f"--results {name[:100]}: {path} is no folder"])
            break
    return Results(name)


def plan_of(options: Namespace, tuning: bool = False) -> Plan:
    """The plan of the named experiments; names are checked before anything heavy is loaded."""
    find_profile(options.profile)
    words = names_of(options)
    asked, left_out = chosen(words, options.profile)
    results = results_of(options) if hasattr(options, "results") else None
    few = listed(dict.fromkeys(words)) if len(words) < 6 else f"{len(words)} experiments"
    with working(f"Planning {few or 'every experiment'}"):
        import_modules(options)
        from ablations.plan.wanted import make_plan

        settings = options.overrides, options.seeds, options.large, options.factors
        gc.disable()  # nothing that is planned is garbage: looking for some takes a tenth of it
        try:
            plan = make_plan(asked, options.profile, *settings, results, tuning)
        finally:
            gc.freeze()
            gc.enable()
    if left_out:
        plan.notes.append(f"too long for {options.profile}, so left out: {listed(left_out)}")
    return plan


def import_modules(options: Namespace) -> None:
    """Parts of the user's own register themselves."""
    if options.imports and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # and it stays: workers look where this process does
    for module in options.imports:
        try:
            importlib.import_module(module)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # whatever a module of the user's raises: SystemExit, too
            what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigError([f"--import {module}: {what}"]) from None
