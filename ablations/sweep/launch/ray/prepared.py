"""Tasks that are read once on a machine, however many Ray workers it has.

The first worker to need a task reads it and keeps it beside the code; the others wait for that and
take it from there. A kept task is known by its settings and by the digest of its data as the driver
has it: where the data of this machine is another, nothing is kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ablations.store.files import read_file, write_atomic

_DRAWN = (TypeError, AttributeError, pickle.PicklingError)  # of what holds a generator


def prepared(folder: Path, frozen: str, digest: str, read: Callable[[], Any]) -> Any:
    """The task with these settings and this data, as it is kept; else it is read, and kept.

    One that cannot be written down is drawn, not read, and costs each worker next to nothing.
    """
    name = hashlib.sha256(json.dumps([frozen, digest]).encode()).hexdigest()
    place = folder / f"{name}.pickle"
    with _alone(folder / f"{name}.lock"):
        if place.exists():
            return pickle.loads(read_file(place))  # in a folder where only this user writes
        task = read()
        if task.digest() == digest:
            with contextlib.suppress(*_DRAWN):
                write_atomic(place, pickle.dumps(task))
        return task


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """One process of this machine at a time; the kernel lets go for one that is killed."""
    lock.parent.mkdir(mode=0o700, exist_ok=True)
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
