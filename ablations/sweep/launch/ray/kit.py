"""What travels with a sweep to machines that share no disk: code, a user's modules, the tasks."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from ablations.store.files import read_file
from ablations.store.stamp import PROJECT, ROOT, sources
from ablations.tasks.cache import announced, load_task

_KINDS = (".py", ".yaml")
_TASKS = "tasks.json"


def packed(imports: Iterable[str]) -> bytes:
    """One zip; the same code and tasks give the same bytes."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
        for place, path in sorted({**dict(_ours()), **sources(imports)}.items()):
            file.writestr(zipfile.ZipInfo(place), path.read_bytes(), zipfile.ZIP_DEFLATED)
        tasks = {frozen: load_task(frozen).digest() for frozen in announced()}
        file.writestr(zipfile.ZipInfo(_TASKS), json.dumps(tasks))
    return held.getvalue()


def tasks_to_prepare() -> dict[str, str]:
    """Where this was unpacked: the tasks of the sweep, and the digest of each one's data as the
    driver has it."""
    found: dict[str, str] = json.loads(read_file(ROOT / _TASKS))
    return found


def _ours() -> Iterator[tuple[str, Path]]:
    for package in PROJECT:
        for path in (ROOT / package).rglob("*"):
            if path.suffix in _KINDS and path.is_file():
                yield path.relative_to(ROOT).as_posix(), path
