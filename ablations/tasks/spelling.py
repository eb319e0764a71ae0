"""Words and pronunciations as token ids, and back.

PAD, BOS and EOS come first in both vocabularies, then the letters or the phones in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from ablations.tasks.cmudict import LETTERS, PHONES
from model.batch import BOS, EOS

SPECIAL = ("<pad>", "<bos>", "<eos>")  # ids 0, 1, 2
SOURCE_SIZE = len(SPECIAL) + len(LETTERS)
TARGET_SIZE = len(SPECIAL) + len(PHONES)

_LETTERS = LETTERS.encode()
_TO_ID = bytes.maketrans(_LETTERS, bytes(range(len(SPECIAL), SOURCE_SIZE)))
_PHONES = {phone: index for index, phone in enumerate(PHONES, start=len(SPECIAL))}
_NAMES = (*SPECIAL, *PHONES)


def encode_word(word: str) -> bytes:
    """What a model reads: the letters, then EOS, so that it knows the end of a word."""
    letters = word.encode()
    if not letters or letters.translate(None, _LETTERS):
        wrong = " ".join(sorted(set(word) - set(LETTERS)))
        problem = f"has {wrong!r}" if wrong else "is empty"
        raise ValueError(f"the word {word!r} {problem}: write it with a–z and ' only")
    return letters.translate(_TO_ID) + bytes([EOS])


def encode_phones(said: str) -> list[int]:
    """The ids of phones with spaces between."""
    return list(map(_PHONES.__getitem__, said.split()))


def encode_target(said: str) -> bytes:
    """What a model should write: BOS, the phones, EOS."""
    return bytes([BOS, *encode_phones(said), EOS])


def decode_phones(tokens: Iterable[int]) -> str:
    """The phones with spaces between; a model that errs may also have written special tokens."""
    return " ".join(_NAMES[token] for token in tokens)
