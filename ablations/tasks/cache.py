"""Tasks that are read once, however many trials ask for them."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from ablations.store.files import read_file
from ablations.store.identity import canonical_json

MOST = 32  # tasks that all workers find read; more would only fill the memory
_ANNOUNCED = "ABLATIONS_TASKS"


@cache
def load_task(frozen: str) -> Any:
    from ablations.tasks import TASK

    return TASK.build(json.loads(frozen))


@contextlib.contextmanager
def announce(tasks: Iterable[Mapping[str, Any]]) -> Iterator[None]:
    """Let processes that are started in the block know which tasks jobs will ask for most often.

    They are told in a file: a variable of the environment may have no more than 128 KiB.
    """
    wanted = [frozen for frozen, _ in Counter(map(canonical_json, tasks)).most_common(MOST)]
    opened, name = tempfile.mkstemp(prefix="ablations-tasks-")
    before = os.environ.get(_ANNOUNCED)
    try:
        with open(opened, "w", encoding="utf-8") as file:
            json.dump(wanted, file)
        os.environ[_ANNOUNCED] = name
        yield
    finally:
        os.environ.pop(_ANNOUNCED, None)
        if before is not None:
            os.environ[_ANNOUNCED] = before
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def announced() -> list[str]:
    """The tasks that whoever started this process announced."""
    name = os.environ.get(_ANNOUNCED)
    return [] if name is None else json.loads(read_file(name))
