"""Files of text: a user's own, with errors by file and line, and those of installed packages."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from pathlib import Path

from ablations.store.files import read_file

_BROUGHT = "ABLATIONS_FILES"


def brought_to(path: str) -> Path | None:
    """Where a copy of a file of the driver's belongs on a machine that has none of its disks."""
    folder = os.environ.get(_BROUGHT)
    return None if folder is None else Path(folder, hashlib.sha256(path.encode()).hexdigest())


def find_file(package: str, *parts: str) -> Path:
    """A file of an installed package, found without running the package."""
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or []:
        if (file := Path(folder, *parts)).is_file():
            return file
    name = package.replace("_", "-")
    raise ValueError(f"the package {name} is not installed: run ./run_all.sh setup")


def split_of(digest: bytes) -> str:
    """90 % train, 5 % valid, 5 % test, by the end of a hash; its start may order the items."""
    return ("valid", "test", *["train"] * 18)[int.from_bytes(digest[-8:], "big") % 20]


def read_text(path: str) -> str:
    """The whole file, or the copy that was brought here; a ValueError says `path:line: reason`."""
    copy = brought_to(path)
    try:
        written = read_file(path if copy is None or not copy.exists() else copy)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{path}: {reason}; name a file that can be read") from None
    try:
        text = written.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    if not text.strip():
        raise ValueError(f"{path}:1: the file is empty; write some text in it")
    return text
