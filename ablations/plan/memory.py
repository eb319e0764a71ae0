"""What planning has worked out before, kept so that the next command need not do it again.

A file in the user's cache folder, safe to lose. It is named after everything that its facts depend
on: this code, the libraries and the data that come with it. Facts that depend on anything else,
such as a file or a part of the user's own, are not kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from ablations.store.files import read_file, write_atomic

ROOT = Path(__file__).parents[2]
_CODE = ("model", "ablations/plan", "ablations/store", "ablations/tasks", "ablations/train")
_LIBRARIES = ("torch", "sentencepiece", "omegaconf")
_KEPT = 8  # files; older code's go first


class PlanMemory:
    """Facts of several kinds, each by a text that says what it is a fact of."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._facts = _read(path)
        self._new: dict[str, dict[str, Any]] = {}

    def recall(self, kind: str, key: str) -> Any:
        """What is known, as plain JSON; None where nothing is."""
        return self._facts.get(kind, {}).get(_short(key))

    def note(self, kind: str, key: str, fact: Any) -> None:
        try:
            json.dumps(fact, allow_nan=False)
        except (ValueError, TypeError):  # what JSON cannot say is worked out every time
            return
        self._new.setdefault(kind, {})[_short(key)] = fact
        self._facts.setdefault(kind, {})[_short(key)] = fact

    def keep(self) -> None:
        """Write what is new beside what others have written; a folder that takes nothing is none
        of our business."""
        if not self._new:
            return
        held = _read(self._path)
        for kind, facts in self._new.items():
            held.setdefault(kind, {}).update(facts)
        with contextlib.suppress(OSError):
            write_atomic(self._path, json.dumps(held, allow_nan=False))
            self._new.clear()
            _forget_oldest(self._path)


def _short(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:24]


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """A file that cannot be used counts as none."""
    try:
        plain = json.loads(read_file(path))
    except (OSError, ValueError, RecursionError):
        return {}
    is_sound = isinstance(plain, dict) and all(isinstance(each, dict) for each in plain.values())
    return plain if is_sound else {}


def _forget_oldest(newest: Path) -> None:
    kind = newest.name.partition("-")[0]
    files = sorted(newest.parent.glob(f"{kind}-*.json"), key=lambda file: file.stat().st_mtime)
    for file in files[:-_KEPT]:
        file.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where this user's programs keep what they can do without."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    above = Path(named) if os.path.isabs(named) else Path("~/.cache").expanduser()
    return above / "attention-ablated"


@cache
def memory() -> PlanMemory:
    """Of facts that hold as long as code, libraries and data are what they are now."""
    return PlanMemory(cache_folder() / f"plans-{_version()}.json")


def keep_facts() -> None:
    """Let the next command find what this one has worked out."""
    memory().keep()


def _version() -> str:
    """Twelve hex digits of all that planning depends on, but for what the user brings."""
    from ablations.tasks.data import bible, cmudict

    digest = hashlib.sha256()
    for file in sorted(file for folder in _CODE for file in (ROOT / folder).rglob("*.py")):
        digest.update(f"{file.relative_to(ROOT)}\0".encode())
        digest.update(file.read_bytes())
    for library in _LIBRARIES:
        digest.update(f"{library} {importlib.metadata.version(library)}\0".encode())
    finds = (cmudict.find, lambda: bible.find(bible.KING_JAMES),
             lambda: bible.find(bible.WORLD_ENGLISH))  # fmt: skip
    for find in finds:
        with contextlib.suppress(ValueError):  # not installed: its tasks cannot be planned at all
            found = find().stat()
            digest.update(f"{found.st_size} {found.st_mtime_ns}\0".encode())
    return digest.hexdigest()[:12]


def is_ours() -> bool:
    """Whether no part of the user's own is there, of which this memory knows nothing."""
    from ablations.tasks import TASK
    from ablations.train.optimiser import OPTIMISER, SCHEDULE
    from model.build import FAMILIES

    return all(
        part.__module__.startswith(("model.", "ablations."))
        for family in (*FAMILIES, TASK, OPTIMISER, SCHEDULE)
        for part in family.parts.values()
    )
