"""The arguments of all commands, and the plan, folder and machine that they name."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import re
import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ablations.commands.terminal import working
from ablations.profile import PROFILES, find_profile
from ablations.spec import chosen, experiments, read_experiment
from ablations.store.identity import DECIDING, TUNING
from ablations.store.results import Results
from ablations.store.words import listed
from model import presets
from model.config import ConfigError, nearest

if TYPE_CHECKING:
    import torch

    from ablations.plan import Plan


def whole(text: str) -> int:
    if not re.fullmatch(r"\d{1,15}", text) or int(text) < 1:
        raise ArgumentTypeError(f"expected a whole number from 1, got '{text[:80]}'")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArgumentTypeError(f"expected a number of seconds above 0, got '{text[:80]}'")
    return number


def seeds(text: str) -> list[int]:
    """`5`: the first five reported seeds; `300-304,307`: these seeds."""
    if re.fullmatch(r"\d{1,15}", text):
        if not 1 <= int(text) <= len(DECIDING):
            example = f"one seed by its number: {text}-{text}"
            raise ArgumentTypeError(f"how many, from 1 to {len(DECIDING)}, got {text}; {example}")
        return list(DECIDING[: int(text)])
    found: list[int] = []
    for part in text.split(","):
        ends = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part)
        if ends is None:
            raise ArgumentTypeError(
                f"expected how many, such as 5, or which, such as 300-304, got '{text[:80]}'"
            )
        found += range(int(ends[1]), int(ends[2] or ends[1]) + 1)
    if not found or len(set(found)) < len(found):
        raise ArgumentTypeError(f"expected each seed once, from small to large, got '{text[:80]}'")
    if reserved := set(found) & set(TUNING):
        raise ArgumentTypeError(f"{min(reserved)} is reserved for tuning; take others")
    return found


ARGUMENTS: dict[str, dict[str, Any]] = {
    "names": {"nargs": "*", "metavar": "NAME",
              "help": "chapters, experiments or files; default: all"},
    "variants": {"dest": "names", "nargs": "*", "metavar": "EXPERIMENT:VARIANT",
                 "help": "two, such as norm/g2p:post"},
    "preset": {"dest": "names", "nargs": "*", "metavar": "PRESET",
               "help": ", ".join(presets.names())},
    "trial": {"help": "EXPERIMENT:VARIANT, EXPERIMENT:VARIANT:SEED (norm/g2p:post:301) or an id"},
    "input": {"help": "what to ask, such as a word; after -- if it starts with -"},
    "claims": {"nargs": "*", "metavar": "ID", "help": "default: every claim"},
    "kind": {"metavar": "NAME", "help": "such as forest"},
    "one": {"metavar": "A", "help": "a results folder"},
    "other": {"metavar": "B", "help": "another"},
    # which trials
    "--claim": {"action": "append", "default": [], "metavar": "ID",
                "help": "the experiments that decide it"},
    "--profile": {"default": "quick", "help": "smoke, quick, full or gpu"},
    "--results": {"metavar": "DIR", "help": "default: results/<profile>"},
    "--seeds": {"type": seeds, "metavar": "N",
                "help": "the first N reported seeds, or 300-304, or 7,8"},
    "--import": {"dest": "imports", "action": "append", "default": [], "metavar": "MODULE",
                 "help": "a module with components of your own"},
    "--rerun": {"choices": ("stale", "failed"), "help": "run these again"},
    "--large": {"action": "store_true", "help": "also more than 20,000 trials"},
    # where they run
    "--jobs": {"type": whole, "help": "jobs at once; default: one per usable core or accelerator"},
    "--device": {"help": "default: the accelerator if there is one, else cpu"},
    "--devices": {"type": whole, "default": 1, "metavar": "N",
                  "help": "so many train one trial together, a process each; default: 1"},
    "--pack": {"type": whole, "default": 1, "metavar": "N",
               "help": "seeds in a pass, which train as one model; default: 1"},
    "--limit": {"type": seconds, "metavar": "SECONDS", "help": "a job that takes longer is ended"},
    "--on": {"choices": ("local", "ray", "slurm"), "default": "local",
             "help": "this machine, a Ray cluster or Slurm; --jobs then counts the jobs there"},
    "--address": {"metavar": "HOST:PORT",
                  "help": "of a Ray cluster; default: RAY_ADDRESS, or one is started here"},
    "--trust-cluster": {"action": "store_true",
                        "help": "also a Ray cluster that others can reach without a token"},
    "--cluster": {"metavar": "FILE.yaml", "help": "partition, time limit and so on, for Slurm"},
    # other
    "--json": {"action": "store_true", "help": "one JSON document, nothing else"},
    "--yes": {"action": "store_true", "help": "delete what is listed"},
    "--to": {"type": Path, "metavar": "OUT", "required": True, "help": "where to write"},
    "--length": {"type": whole, "metavar": "N", "help": "default: max_len"},
    "--vocabulary": {"type": whole, "metavar": "N", "help": "default: the preset's or 32,000"},
}  # fmt: skip
"""Every argument of every command."""


def names_of(options: Namespace) -> list[str]:
    """The named experiments, and those that decide the named claims."""
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
    """The named experiments, and notes; mistakes in names are found before slow imports."""
    find_profile(options.profile)
    words = names_of(options)
    asked, left_out = chosen(words, options.profile)
    few = listed(dict.fromkeys(words)) if len(words) < 6 else f"{len(words)} experiments"
    with working(f"Planning {few or 'every experiment'}"):
        import_modules(options)
        note = f"too long for {options.profile}, so left out: {listed(left_out)}"
        yield asked, [note] if left_out else []


def import_modules(options: Namespace) -> None:
    """Import the user's modules, which register components."""
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
