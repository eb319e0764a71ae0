"""clean: what a results folder no longer needs, listed; with --yes, deleted.

Only plain files of the folder's own layout are ever named: a link is neither followed nor deleted.
The weights of a trial whose record says that it is trained stay, planned or not: measures that are
asked for later are taken from them.
"""

from __future__ import annotations

import contextlib
import os
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ablations.commands.arguments import place, results_of
from ablations.leases import Leases
from ablations.store.files import is_left
from ablations.store.record import TRAINED, Record
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import short

_WRITTEN = (".", "trials", "checkpoints", "figures", "tables", "report", "tuned")


def arguments(parser: ArgumentParser) -> None:
    place(parser)
    parser.add_argument("--yes", action="store_true", help="delete what is listed")


@dataclass(frozen=True)
class Litter:
    """A file that can go, and why."""

    path: Path
    reason: str
    size: int


def act(options: Namespace) -> int:
    from ablations.plan.estimate import in_bytes

    results = results_of(options)
    found = list(litter(results))
    if options.yes and found:
        with Leases(results.root / "leases").locked():  # now nothing can begin: look again
            found = [each for each in litter(results) if _delete(each)]
    total = sum(each.size for each in found)
    for each in found:
        print(f"{in_bytes(each.size):>9}  {each.path}  {each.reason}")
    if not found:
        print(f"Nothing to delete in {results.root}.")
    elif options.yes:
        print(f"Deleted {len(found)} files, {in_bytes(total)}.")
    else:
        print(f"{len(found)} files, {in_bytes(total)}. --yes deletes them.")
    return 0


def litter(results: Results) -> Iterator[Litter]:
    """Everything in the folder that nobody needs any more."""
    # Files first: whoever writes a checkpoint has planned and leased its trial before.
    checkpoints, leases = _files(results.checkpoints), _files(results.root / "leases")
    live = {lease.name for lease in Leases(results.root / "leases").live()}
    planned = {trial for trials in results.planned().values() for trial in trials}
    for name in _WRITTEN:
        for file in _files(results.root / name):
            is_temporary = file.name.startswith(".") and file.name.endswith(".tmp")
            if is_temporary and file.name.split(".")[1] not in live and is_left(Path(file.path)):
                yield _litter(file, "left by a write that did not end")
    for file in checkpoints:
        trial = file.name.partition(".")[0]
        if trial and trial not in live and (why := _past_use(file, trial in planned, results)):
            yield _litter(file, why)
    for file in _files(results.trials):
        if ".bad-" in file.name:
            yield _litter(file, "a record that could not be used")
    for file in leases:
        if not file.name.startswith(".") and file.name not in live:
            yield _litter(file, "a lease whose owner is dead")


def _files(folder: Path) -> list[os.DirEntry[str]]:
    """The plain files of a folder that is not a link itself."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # its writer has just renamed it
                if entry.is_file(follow_symlinks=False):
                    entry.stat(follow_symlinks=False)  # which the entry remembers
                    files.append(entry)
    return sorted(files, key=lambda entry: entry.name)


def _litter(file: os.DirEntry[str], reason: str) -> Litter:
    return Litter(Path(file.path), reason, file.stat(follow_symlinks=False).st_size)


def _past_use(file: os.DirEntry[str], is_planned: bool, results: Results) -> str | None:
    """Why a checkpoint that nobody is working with can go; None if it cannot."""
    trial, _, kind = file.name.partition(".")
    is_weights = kind.startswith("safetensors")
    if (is_weights and is_planned) or not kind.startswith(("safetensors", "unfinished")):
        return None
    try:
        head = results.read(trial)
    except RecordError:  # once it is set aside, or read by newer code, one will know
        return None
    trained = head if head and head.status in TRAINED else None
    if not is_planned:
        return None if is_weights and trained else "of a trial that is in no plan"
    if trained and _led_to(trained, file, results):
        return "of a training that has its record"
    return None


def _led_to(head: Record, file: os.DirEntry[str], results: Results) -> bool:
    """Whether the training that is kept here is the one that made this record.

    One that came after it is not over: other code was tried, or the weights were gone.
    """
    from ablations.train.checkpoint import code_of  # loads torch

    is_kept = results.weights(head.trial).exists()
    return is_kept and code_of(Path(file.path)) in (None, short(head.env.get("code")))


def _delete(each: Litter) -> bool:
    """Whether it was still there to be deleted."""
    with contextlib.suppress(FileNotFoundError):
        each.path.unlink()
        return True
    return False
