"""clean: what a results folder no longer needs, listed; with --yes, deleted.

Only plain files of the folder's own layout are ever named: a link is neither followed nor deleted.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

from ablations.claim import Claims
from ablations.commands.arguments import as_json, place, results_of
from ablations.record import TRAINED, RecordError, Results, writer_of

_HOUR = 3600.0
_WRITTEN = (".", "trials", "checkpoints", "figures", "tables", "report")  # where files are written


def arguments(parser: ArgumentParser) -> None:
    place(parser)
    as_json(parser)
    parser.add_argument("--yes", action="store_true", help="delete what is listed")


@dataclass(frozen=True)
class Litter:
    """A file that can go, and why."""

    path: Path
    reason: str
    size: int


def act(options: Namespace) -> int:
    from ablations.estimate import in_bytes

    results = results_of(options)
    found = list(litter(results))
    if options.yes:
        found = [each for each in found if _delete(each, results)]
    total = sum(each.size for each in found)
    if options.json:
        files = [
            {"path": str(each.path), "reason": each.reason, "bytes": each.size} for each in found
        ]
        print(json.dumps({"deleted": options.yes, "bytes": total, "files": files}, indent=1))
        return 0
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
    # Files first: whoever writes a checkpoint has planned and claimed its trial before.
    checkpoints, claims = _files(results.checkpoints), _files(results.root / "claims")
    live = {claim.name for claim in Claims(results.root / "claims").live()}
    planned = {trial for trials in results.planned().values() for trial in trials}
    for name in _WRITTEN:
        for file in _files(results.root / name):
            if file.name.startswith(".") and file.name.endswith(".tmp") and _is_left(file):
                yield _litter(file, "left by a write that did not end")
    for file in checkpoints:
        trial, _, kind = file.name.partition(".")
        if not trial or trial in live or not kind.startswith(("safetensors", "training")):
            continue
        if trial not in planned:
            yield _litter(file, "of a trial that is in no plan")
        elif kind.startswith("training") and _is_trained(results, trial):
            yield _litter(file, "of a training that has its record")
    for file in _files(results.trials):
        if ".bad-" in file.name:
            yield _litter(file, "a record that could not be used")
    for file in claims:
        if not file.name.startswith(".") and file.name not in live:
            yield _litter(file, "a claim whose owner is dead")


def _files(folder: Path) -> list[os.DirEntry[str]]:
    """The plain files of a folder that is not a link itself."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    with os.scandir(folder) as entries:
        files = [entry for entry in entries if entry.is_file(follow_symlinks=False)]
    return sorted(files, key=lambda entry: entry.name)


def _litter(file: os.DirEntry[str], reason: str) -> Litter:
    return Litter(Path(file.path), reason, file.stat(follow_symlinks=False).st_size)


def _is_left(file: os.DirEntry[str]) -> bool:
    """Whether nobody writes this temporary file any more."""
    writer = writer_of(file.name)
    if writer is not None and not psutil.pid_exists(writer):
        return True
    return time.time() - file.stat(follow_symlinks=False).st_mtime > _HOUR


def _is_trained(results: Results, trial: str) -> bool:
    try:
        head = results.head(trial)
    except RecordError:
        return False
    return head is not None and head.status in TRAINED


def _delete(each: Litter, results: Results) -> bool:
    """Delete a file, if it is still there and, where it is a claim, still nobody's."""
    with contextlib.suppress(FileNotFoundError):
        if each.path.parent.name != "claims":
            each.path.unlink()
            return True
        claims = Claims(each.path.parent)
        with claims.locked():
            if each.path.name not in {claim.name for claim in claims.live()}:
                each.path.unlink()
                return True
    return False
