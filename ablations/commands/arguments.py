"""Words that several commands understand, and what they stand for."""

from __future__ import annotations

import importlib
import math
import os
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ablations.plan.profile import find_profile
from ablations.plan.question import PROFILES, catalogue, find, read_ablation
from ablations.store.results import Results
from ablations.store.seeds import DECIDING, TUNING
from ablations.store.words import listed
from model.arguments import working
from model.config import ConfigError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from ablations.plan.tuning import Grid
    from ablations.plan.wanted import Plan, Spent

_MANY = 1_000_000


def names(parser: ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: the whole catalogue")
    parser.add_argument(
        "--claim", action="append", default=[], metavar="ID", help="the questions that decide it"
    )


def names_of(options: Namespace) -> list[str]:
    """The ablations that were named, or whose claims were; none: all of them."""
    if not options.claim:
        return list(options.names)
    profile = getattr(options, "profile", PROFILES[-1])
    find_profile(profile)
    deciding: dict[str, list[str]] = {}
    for name, path in catalogue().items():
        ablation, _ = read_ablation(path)
        for claim, _ in ablation.predictions if ablation.is_for(profile) else ():
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
    parser.add_argument("--seeds", type=_seeds, metavar="200-204", help="default: the profile's")
    parser.add_argument(
        "--until",
        choices=("decided",),
        help="look at 3, 5 and 10 seeds, and stop where claims are decided (quick does)",
    )
    parser.add_argument(
        "--arms",
        choices=("all", "deciding"),
        help="train every arm of a question, or those that decide its claims (as smoke and quick)",
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
        "--jobs",
        type=count,
        help="jobs at once; default: one per usable core, or what pays on each accelerator",
    )
    parser.add_argument("--device", help="default: the accelerator if there is one, else cpu")
    parser.add_argument(
        "--pack",
        type=_pack,
        metavar="auto|never|N",
        help="train N seeds of an arm as one model; auto, which accelerators do, times what pays",
    )


@dataclass(frozen=True)
class Machine:
    """A device, and the number of jobs that run on it, or on all of its kind, at once."""

    device: torch.device
    jobs: int
    accelerators: int = 1
    """Of its kind, in all; the cores are one device."""
    pack: str | int = "never"
    """How many seeds of an arm are trained as one model: `never` several, or as `auto` times it."""
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
    def workers(self) -> list[int]:
        """How many jobs may share a device, from few to many: 1, 2, 4. The cores are one device,
        and as many share it as there are jobs."""
        if self.device.type == "cpu":
            return [self.jobs]
        most = max(1, self.jobs // self.accelerators)
        return [2**power for power in range(most.bit_length())]

    def __str__(self) -> str:
        if self.device.type != "cpu":
            held = self.accelerators
            return f"{held} × {self.device}" if held > 1 else str(self.device)
        used = self.at_once * self.devices
        return f"{used} core{'s' * (used > 1)}"


def machine_of(options: Namespace) -> Machine:
    from ablations.train.device import check_devices, pick_device

    device, devices = pick_device(options.device), getattr(options, "devices", 1)
    check_devices(devices, device)
    pack = packing_of(options, device)
    if device.type == "cpu":
        jobs = options.jobs or _room(cores(), devices)
        return Machine(device, jobs, pack=pack, devices=devices)
    from ablations.plan.ways import MOST_WORKERS
    from ablations.train.device import how_many

    held = how_many(device)
    workers = MOST_WORKERS if pack == "auto" else 1
    return Machine(device, options.jobs or workers * _room(held, devices), held, pack, devices)


def packing_of(options: Namespace, device: torch.device) -> str | int:
    """What was asked for; else accelerators time what pays, where one trains a trial."""
    if getattr(options, "devices", 1) > 1:
        if options.pack not in (None, "never"):
            raise ConfigError(["--pack and --devices do not go together: leave one out"])
        return "never"
    return options.pack or ("never" if device.type == "cpu" else "auto")


def _room(held: int, devices: int) -> int:
    """How many trials on so many devices each have them to themselves; one at least."""
    return max(1, held // devices)


def cores() -> int:
    """How many processors this process may use; that may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _seeds(text: str) -> list[int]:
    """`200,201`, `200-204`, or both."""
    seeds: list[int] = []
    for part in text.split(","):
        ends = part.split("-")
        if not 1 <= len(ends) <= 2 or not all(end.isdecimal() and len(end) < 19 for end in ends):
            raise ArgumentTypeError(
                f"--seeds {text}: expected whole numbers from 0, such as 200,201 or 200-204"
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


def devices(text: str) -> int:
    return count(text, "--devices")


def _pack(text: str) -> str | int:
    if text in ("auto", "never"):
        return text
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"--pack {text}: expected auto, never or a number of seeds")
    return int(text)


def duration(text: str, option: str = "--limit") -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ArgumentTypeError(f"{option} {text}: expected a number of seconds above 0")
    return seconds


def budget(text: str) -> float:
    """`45m`, `2h`, `90s`, or plain seconds."""
    units = {"s": 1, "m": 60, "h": 3600}
    unit = units.get(text[-1:])
    if unit is None and not text[-1:].isdecimal():
        raise ArgumentTypeError(f"--budget {text}: expected a time such as 45m or 2h")
    return duration(text[:-1] if unit else text, "--budget") * (unit or 1)


def is_until_decided(options: Namespace) -> bool:
    """Whether seeds are added look by look: where that is said, or the profile's way."""
    if options.until and options.seeds:
        raise ConfigError(["--until and --seeds do not go together: leave one out"])
    if options.seeds is not None:
        return False
    from ablations.plan.profile import read_profile

    return options.until is not None or read_profile(options.profile).until == "decided"


def results_of(options: Namespace) -> Results:
    if options.results is None:
        return Results(Path("results", find_profile(options.profile).stem))
    if not options.results or "\0" in options.results:
        raise ConfigError([f"--results {options.results[:100]!r}: not the name of a folder"])
    return Results(options.results)


def plan_of(
    options: Namespace, spent: Spent | None = None, grids: Mapping[str, Grid] | None = None
) -> Plan:
    """The plan of the named ablations; names are checked before anything heavy is loaded.

    Where seeds are added look by look it is that of the first look, unless told otherwise.
    """
    words = names_of(options)
    for word in words:
        find(word)
    find_profile(options.profile)
    few = listed(dict.fromkeys(words)) if len(words) < 6 else f"{len(words)} questions"
    with working(f"Planning {few or 'every question'}"):
        return _planned(options, words, spent, grids)


def _planned(
    options: Namespace,
    words: list[str],
    spent: Spent | None,
    grids: Mapping[str, Grid] | None,
) -> Plan:
    import_modules(options)
    from ablations.plan.everything import everything
    from ablations.plan.memory import keep_facts
    from ablations.plan.wanted import Scope, Spent, make_plan

    results = results_of(options) if hasattr(options, "results") else None
    if spent is None and hasattr(options, "until") and is_until_decided(options):
        from ablations.commands.deciding import first_look

        spent = Spent(first_look())
    seeds = spent or options.seeds
    settings = options.overrides, seeds, options.large, options.factors
    scope = Scope(getattr(options, "arms", None), options.claim)
    words = words or everything(options.profile, scope.arms)
    plan = make_plan(words, options.profile, *settings, results, grids, scope)
    plan.notes += _undeciding(options.seeds or [], plan)
    keep_facts()
    return plan


def _undeciding(seeds: Sequence[int], plan: Plan) -> list[str]:
    """That claims do not go by seeds which people have seen, where such are asked for."""
    others = [each for each in seeds if each not in DECIDING]
    has_claims = any(table.ablation.claims for table in plan.tables.values())
    if not others or not has_claims:
        return []
    told = ", ".join(map(str, others[:5])) + (" …" if len(others) > 5 else "")
    return [f"seeds {told} are trained and compared, and decide no claim: 200 to 209 do"]


def import_modules(options: Namespace) -> None:
    """Parts of the user's own register themselves."""
    for module in options.imports:
        _import(module)


def _import(module: str) -> None:
    sys.path.insert(0, os.getcwd())
    try:
        importlib.import_module(module)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # whatever a module of the user's raises: SystemExit, too
        what = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise ConfigError([f"--import {module}: {what}"]) from None
    finally:
        sys.path.pop(0)
