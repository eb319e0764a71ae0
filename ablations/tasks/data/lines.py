"""A user's text file; what is wrong with it is said in one line, with the file's own line."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ablations.store.files import read_file

_BROUGHT = "ABLATIONS_FILES"


def brought_to(path: str) -> Path | None:
    """Where a copy of a file of the driver's belongs on a machine that has none of its disks."""
    folder = os.environ.get(_BROUGHT)
    return None if folder is None else Path(folder, hashlib.sha256(path.encode()).hexdigest())


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
