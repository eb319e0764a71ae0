"""Arguments that several commands take, and what they stand for."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
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

    from ablations.plan import Plan


def names(parser: ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="chapters, experiments or files; default: all"
    )
    parser.add_argument(
        "--claim", action="append", default=[], metavar="ID", help="the experiments that decide it"
    )


def as_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document, nothing else")


def profile(parser: ArgumentParser) -> None:
    parser.add_argument("--profile", default="quick", help="smoke, quick, full or gpu")


def results(parser: ArgumentParser) -> None:
    profile(parser)
    parser.add_argument("--results", metavar="DIR", help="default: results/<profile>")


def trials(parser: ArgumentParser) -> None:
    """What decides which trials there are."""
    names(parser)
    results(parser)
    imports(parser)
    parser.add_argument("--rerun", choices=("stale", "failed"), help="run these again")
    parser.add_argument("--large", action="store_true", help="also more than 20,000 trials")


def seeds(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--seeds", type=_seeds, metavar="N", help="the first N reported seeds, or 300-304, or 7,8"
    )


def imports(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--import",
        dest="imports",
        action="append",
        default=[],
        metavar="MODULE",
        help="a module with components of your own",
    )


def machine(parser: ArgumentParser) -> None:
    """Where the trials run, and how many at once."""
    parser.add_argument(
        "--jobs", type=whole, help="jobs at once; default: one per usable core or accelerator"
    )
    parser.add_argument("--device", help="default: the accelerator if there is one, else cpu")
    parser.add_argument(
        "--pack",
        type=whole,
        default=1,
        metavar="N",
        help="seeds in a pass, which train as one model; default: 1",
    )


def whole(text: str, least: int = 1) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < least:
        raise ArgumentTypeError(f"expected a whole number from {least}, got '{text[:80]}'")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"expected a number of seconds above 0, got '{text[:80]}'")
    return number


def _seeds(text: str) -> list[int]:
    """`5`: the first five of the reported seeds; `300-304`, `300,302` or both: these."""
    if text.isdecimal():
        if not 1 <= whole(text, 0) <= len(DECIDING):
            example = f"one seed by its number: {text}-{text}"
            raise ArgumentTypeError(f"how many, from 1 to {len(DECIDING)}, got {text}; {example}")
        return list(DECIDING[: int(text)])
    seeds: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if ends is None:
            raise ArgumentTypeError(
                f"expected how many, such as 5, or which, such as 300-304, got '{text[:80]}'"
            )
        seeds += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ArgumentTypeError(f"expected each seed once, from small to large, got '{text[:80]}'")
    if reserved := set(seeds) & set(TUNING):
        raise ArgumentTypeError(f"{min(reserved)} is reserved for tuning; take others")
    return seeds


def names_of(options: Namespace) -> list[str]:
    """The experiments that are named, and those that decide the claims that are named."""
    if not options.claim:
        return list(options.names)
    profile = getattr(options, "profile", PROFILES[-1])
    find_profile(profile)
    deciding: dict[str, list[str]] = {}
    for name, path in experiments().items():
        experiment = read_experiment(path)
        for claim, _ in experiment.predictions if experiment.is_for(profile) else ():
            deciding.setdefault(claim.id, []).append(name)
    for claim in options.claim:
        if claim not in deciding:
            raise ConfigError([f"--claim {claim[:100]}: no such claim. {nearest(claim, deciding)}"])
    return list(dict.fromkeys([*options.names, *(n for c in options.claim for n in deciding[c])]))


def results_of(options: Namespace) -> Results:
    if options.results is None:
        return Results(Path("results", find_profile(options.profile).stem))
    name = options.results
    if not name or "\0" in name:
        raise ConfigError([f"--results {name[:100]!r}: not the name of a folder"])
    there = next((p for p in (Path(name), *Path(name).parents) if os.path.lexists(p)), Path("."))
    if not there.is_dir():
        raise ConfigError([f"--results {name[:100]}: {there} is no folder"])
    return Results(name)


def plan_of(options: Namespace) -> Plan:
    """The plan of the named experiments."""
    results = results_of(options) if hasattr(options, "results") else None
    with planning(options) as (asked, notes):
        from ablations.plan import make_plan

        settings = options.overrides, options.seeds, options.large, options.factors
        plan = make_plan(asked, options.profile, *settings, results)
    plan.notes += notes
    return plan


@contextlib.contextmanager
def planning(options: Namespace) -> Iterator[tuple[list[str], list[str]]]:
    """The named experiments, and a note where some are left out; names are checked before anything
    heavy is loaded."""
    find_profile(options.profile)
    words = names_of(options)
    asked, left_out = chosen(words, options.profile)
    few = listed(dict.fromkeys(words)) if len(words) < 6 else f"{len(words)} experiments"
    with working(f"Planning {few or 'every experiment'}"):
        import_modules(options)
        note = f"too long for {options.profile}, so left out: {listed(left_out)}"
        yield asked, [note] if left_out else []


def import_modules(options: Namespace) -> None:
    """The user's own components register themselves."""
    if options.imports and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # for good: workers search the same path
    for module in options.imports:
        try:
            importlib.import_module(module)
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as error:  # a user's module may raise anything, also SystemExit
            what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            raise ConfigError([f"--import {module}: {what}"]) from None


@dataclass(frozen=True)
class Machine:
    """A device, and how many trials it runs at once."""

    device: torch.device
    jobs: int
    held: int
    """Usable cores, or accelerators of this kind."""
    devices: int = 1
    """How many train one trial together."""

    @property
    def at_once(self) -> int:
        """How many trials run side by side: more jobs than cores or devices take turns."""
        return min(self.jobs, max(1, self.held // self.devices))

    @property
    def accelerators(self) -> int:
        """How many devices the jobs share; the cores are one."""
        return 1 if self.device.type == "cpu" else self.held

    def __str__(self) -> str:
        if self.device.type == "cpu":
            used = self.at_once * self.devices
            return f"{used} core{'s' * (used > 1)}"
        return f"{self.held} × {self.device}" if self.held > 1 else str(self.device)


def machine_of(options: Namespace) -> Machine:
    from ablations.train.device import check_devices, how_many, pick_device

    device, devices = pick_device(options.device), getattr(options, "devices", 1)
    check_devices(devices, device)
    held = cores() if device.type == "cpu" else how_many(device)
    return Machine(device, options.jobs or max(1, held // devices), held, devices)


def cores() -> int:
    """How many processors this process may use; that may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
