"""Whether a report is still that of its records, byte for byte, so that nothing is drawn twice.

Plotting libraries take seconds to load; this module does without them.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import ablations.store
from ablations.store.files import read_file, write_atomic

CODE = (Path(__file__).parent, *map(Path, ablations.store.__path__))
LIBRARIES = ("jinja2", "matplotlib", "numpy", "pandas", "scipy", "seaborn")


def inputs(root: Path) -> str:
    """One word for all that a report is made of: plan, records, code and libraries."""
    told = [_told(path, root) for path in (root / "plan.json", *root.glob("trials/*.json"))]
    return _word([makers(), *told])


def makers() -> str:
    """One word for what makes a report: code, templates and libraries."""
    told = [f"{name} {_version(name)}" for name in LIBRARIES]
    for folder in CODE:
        files = (*folder.rglob("*.py"), *folder.glob("templates/*"))
        told += [_told(path, folder.parent) for path in files]
    return _word(told)


def paths(root: Path) -> list[Path] | None:
    """What the last report wrote, if it is still there as written and nothing else has changed."""
    try:
        noted = json.loads(read_file(root / "report" / "inputs.json"))
        written = {root / name: content for name, content in noted["paths"].items()}
        is_fresh = noted["inputs"] == inputs(root) and all(
            digest(path) == content for path, content in written.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return list(written) if is_fresh else None


def note(root: Path, seen: str, written: Sequence[Path]) -> None:
    """Remember what was seen before the report was made: a later change makes it stale."""
    contents = {str(path.relative_to(root)): digest(path) for path in written}
    write_atomic(root / "report" / "inputs.json", json.dumps({"inputs": seen, "paths": contents}))


def digest(path: Path) -> str:
    """The sha256 of a regular file's bytes; of anything else only what stands in its way.

    Opened without waiting: a pipe under a record's name would otherwise wait for a writer.
    """
    try:
        with open(path, "rb", buffering=0, opener=_at_once) as file:
            if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return "no regular file"


def _word(told: Sequence[str]) -> str:
    return hashlib.sha256(json.dumps(sorted(told)).encode()).hexdigest()


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _told(path: Path, root: Path) -> str:
    return f"{path.relative_to(root)} {digest(path)}"


def _version(library: str) -> str:
    try:
        return metadata.version(library)
    except metadata.PackageNotFoundError:
        return "not installed"
