"""clean: lists the files that a results folder no longer needs; --yes deletes them.

Links are neither followed nor deleted. Weights of trained trials stay, for later evaluations.
"""

from __future__ import annotations

import contextlib
import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from ablations.commands.arguments import results_of
from ablations.leases import Leases
from ablations.store.files import is_left
from ablations.store.record import TRAINED
from ablations.store.results import Results
from ablations.store.schema import RecordError
from ablations.store.stamp import short

FOLDERS = (".", "trials", "checkpoints", "figures", "tables", "report", "tuned")
Litter = tuple[Path, str]
"""A file that can go, and why."""


def act(options: Namespace) -> int:
    from ablations.estimate import in_bytes

    results, total = results_of(options), 0
    results.read_plan()  # RecordError if there is none, before anything is written
    lock = Leases(results.root / "leases").locked() if options.yes else contextlib.nullcontext()
    with lock:  # nothing can begin now
        found = list(litter(results))
        for path, reason in found:
            with contextlib.suppress(FileNotFoundError):
                size = path.lstat().st_size
                if options.yes:
                    path.unlink()
                total += size
                print(f"{in_bytes(size):>9}  {path}  {reason}")
    if not found:
        print(f"Nothing to delete in {results.root}.")
    elif options.yes:
        print(f"Deleted {len(found)} files, {in_bytes(total)}.")
    else:
        print(f"{len(found)} files, {in_bytes(total)}. --yes deletes them.")
    return 0


def litter(results: Results) -> Iterator[Litter]:
    """Every file that is no longer needed."""
    # List files before leases: a trial is leased before its checkpoint is written.
    checkpoints, leases = _files(results.checkpoints), _files(results.root / "leases")
    live = {lease.name for lease in Leases(results.root / "leases").live()}
    entries = results.read_plan()["experiments"].values()
    planned = {trial["id"] for entry in entries for trial in entry["trials"]}
    for folder in FOLDERS:
        for path in _files(results.root / folder):
            is_temporary = path.name.startswith(".") and path.suffix == ".tmp"
            if is_temporary and path.name.split(".")[1] not in live and is_left(path):
                yield path, "left by a write that did not end"
    for path in checkpoints:
        trial = path.name.partition(".")[0]
        if trial and trial not in live and (why := _past_use(path, trial in planned, results)):
            yield path, why
    for path in _files(results.trials):
        if ".bad-" in path.name:
            yield path, "a record that could not be used"
    for path in leases:
        if not path.name.startswith(".") and path.name not in live:
            yield path, "a lease whose owner is dead"


def _files(folder: Path) -> list[Path]:
    """The plain files of a folder that is not a link itself."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        return sorted(Path(entry) for entry in entries if entry.is_file(follow_symlinks=False))


def _past_use(path: Path, is_planned: bool, results: Results) -> str | None:
    """Why a checkpoint without a live lease can be deleted; None if it cannot."""
    trial, _, kind = path.name.partition(".")
    is_weights = kind.startswith("safetensors")
    if (is_weights and is_planned) or not kind.startswith(("safetensors", "unfinished")):
        return None
    try:
        record = results.read(trial)
    except RecordError:  # it may still become readable, by newer code
        return None
    is_trained = record is not None and record.status in TRAINED
    if not is_planned:
        return None if is_weights and is_trained else "of a trial that is in no plan"
    if record is None or not is_trained or not results.weights(trial).exists():
        return None
    from ablations.train.checkpoint import stamp_of  # loads torch

    # The checkpoint of other code belongs to a training that is not over.
    is_over = stamp_of(path).get("code") in (None, short(record.env.get("code")))
    return "of a training that has its record" if is_over else None
