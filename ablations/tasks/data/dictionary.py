"""A pronouncing dictionary cut into train, valid and test, and how a user's own files become one.

A file has one of two formats. A tab in its first line of words tells which.

- CMUdict's: `WORD  P H O N E S`, further pronunciations as `WORD(2)`, a comment after ` #`. Words
  are lower-cased.
- WikiPron's and SIGMORPHON's: `word<TAB>p h o n e s`, one line for each pronunciation.

Lines that start with `;;;` or `# ` are comments in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path

from ablations.tasks.data.lines import read_text
from model.config import ConfigError

Said = dict[str, tuple[str, ...]]  # word → its pronunciations, the usual first, spaces in between

SPLITS = ("train", "valid", "test")
COMMENTS = (";;;", "# ")
_TAIL = re.compile(r"\s#.*")
_STRESSED = re.compile(r"[A-Za-z]+[012]")
_VARIANT = re.compile(r"(?<=.)\(\d+\)$")


@dataclass(frozen=True)
class Dictionary:
    """Words and how they are said, by split; what they are made of; and where they come from."""

    words: dict[str, tuple[str, ...]]
    """Split → its words."""
    said: dict[str, Said]
    """Split → at least its words, and how they are said."""
    letters: Sequence[str]
    phones: Sequence[str]
    longest: int
    """Letters or phones of the longest word, chosen or not."""
    alphabet: str
    """The letters, as a reader is told them."""
    source: str
    licence: str
    rule: str
    """What decides the split of a word."""


def from_files(
    paths: Mapping[str, str], sizes: Mapping[str, int | None], stress: bool
) -> Dictionary:
    """One file a split and its first words, or all; ConfigError has a line for each bad file."""
    read: dict[str, Said] = {}
    problems: list[str] = []
    letters: list[str] = []
    phones: list[str] = []
    for split in SPLITS:
        try:
            read[split] = read_file(paths[split], stress, letters, phones)
        except ValueError as error:
            problems.append(f"{split}={error}")
            continue
        if split == "train":
            letters = sorted(set().union(*read[split]))
            phones = sorted({phone for one in _spoken(read[split]) for phone in one.split()})
    if problems:
        raise ConfigError(problems)
    again = [
        f"{len(read['train'].keys() & read[split].keys())} words of {split}"
        for split in ("valid", "test")
    ]
    return Dictionary(
        {split: tuple(islice(said, sizes[split])) for split, said in read.items()},
        read,
        letters,
        phones,
        max(map(longest, read.values())),
        "letters of the training file",
        ", ".join(Path(paths[split]).name for split in SPLITS),
        "the user's own",
        f"the user's own files; {' and '.join(again)} are in train too",
    )


def read_file(
    path: str, stress: bool, letters: Sequence[str] = (), phones: Sequence[str] = ()
) -> Said:
    """The words of a file in their order; a ValueError says in one line what to mend.

    Where letters and phones are given, others are refused. Without `stress` a last 0, 1 or 2 is
    dropped from the phones of CMUdict's format, then pronunciations that have become equal.
    """
    found: dict[str, list[str]] = {}
    taught = {"letter": frozenset(letters), "phone": frozenset(phones)}
    parse = None
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith(COMMENTS):
            continue
        parse = parse or (_tabbed if "\t" in line else _plain if stress else _unstressed)
        try:
            word, spoken = parse(line)
            for kind, used in (("letter", word), ("phone", spoken)):
                _refuse_unknown(kind, used, taught[kind])
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from None
        known = found.setdefault(word, [])
        said = " ".join(spoken)
        if said not in known:
            known.append(said)
    if not found:
        raise ValueError(f"{path}: no words; write one a line, as in WORD  P H O N E S")
    return {word: tuple(said) for word, said in found.items()}


def longest(said: Said) -> int:
    """Letters or phones of the longest word."""
    return max(max(map(len, said)), max(one.count(" ") + 1 for one in _spoken(said)))


def _spoken(said: Said) -> Iterator[str]:
    return (one for pronunciations in said.values() for one in pronunciations)


def _tabbed(line: str) -> tuple[str, list[str]]:
    word, tab, said = line.partition("\t")
    if not tab or "\t" in said:
        raise ValueError("not two columns; write word<TAB>p h o n e s")
    word, phones = word.strip(), said.split()
    if not word or not phones:
        missing = f"no phones for {word!r}" if word else "no word before the tab"
        raise ValueError(f"{missing}; write word<TAB>p h o n e s")
    return word, phones


def _plain(line: str) -> tuple[str, list[str]]:
    word, *phones = _TAIL.sub("", line).split()
    if not phones:
        raise ValueError(f"no phones for {word!r}; write WORD  P H O N E S")
    return _VARIANT.sub("", word).lower(), phones


def _unstressed(line: str) -> tuple[str, list[str]]:
    word, phones = _plain(line)
    return word, [*map(_without_stress, phones)]


@cache
def _without_stress(phone: str) -> str:
    return phone[:-1] if _STRESSED.fullmatch(phone) else phone


def _refuse_unknown(kind: str, used: Sequence[str], taught: frozenset[str]) -> None:
    if taught and not taught.issuperset(used):
        wrong = next(symbol for symbol in used if symbol not in taught)
        raise ValueError(
            f"no word of train has the {kind} {wrong!r}; drop this line, or teach a word with it"
        )
