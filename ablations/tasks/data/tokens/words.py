"""A token is a word or a mark; the space between two of them goes without saying.

- A word is a run of letters and digits, with hyphens and apostrophes inside. Every other character
  is a token of its own: a mark, or white space that does not go without saying.
- One space is implied between two tokens, but not after an opening mark, not before a closing one,
  and not beside white space.
- Where the text has no space though one is implied, the empty token stands in its place.

So any text can be rebuilt to its last character, as far as its words are known.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ablations.tasks.data.tokens.family import ANY_CHARACTER, TOKENS, Tokens
from ablations.tasks.data.vocabulary import Vocabulary
from model.config import ConfigError

OPENING = frozenset("([{“‘")
CLOSING = frozenset(",.;:?!)]}”’")

_PIECE = re.compile(r"\w+(?:[-'’`]\w+)*|\s|[^\w\s]")
_SPECIAL = 4  # PAD, BOS, EOS and <unk>


@TOKENS.register("words")
class Words(Tokens):
    """The most frequent words of the training text; any other is `<unk>` and charged letter by
    letter."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        size: int | None = 8000
        """Of the vocabulary, special tokens included; null names every word of the training text,
        and then `<unk>` is never learned."""

        def __post_init__(self) -> None:
            if self.size is not None and self.size <= _SPECIAL:
                raise ConfigError([f"size={self.size}: must be above {_SPECIAL}, or null for all"])

    def __init__(self, config: Config, text: str) -> None:
        counts = Counter(split(text))
        named = sorted(counts, key=lambda word: (-counts[word], word))
        if config.size is not None:
            named = named[: config.size - _SPECIAL]
        self.vocabulary = Vocabulary(named, unknown=True)
        self.size = self.vocabulary.size
        self._named = set(named)
        self._letters = Letters(counts)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(split(text))

    def decode(self, ids: Iterable[int]) -> str:
        return join(self.vocabulary.decode(ids))

    def spelling(self, text: str) -> float:
        return sum(self._letters.cost(word) for word in split(text) if word not in self._named)


class Letters:
    """What it costs to spell a word: its letters and its end, each as likely as in all words seen.

    Every letter counts once more than seen (add-one), and so does the case of a letter never seen,
    which is then named among all of Unicode.
    """

    def __init__(self, words: Counter[str]) -> None:
        counts: Counter[str] = Counter()
        for word, times in words.items():
            for letter in word:
                counts[letter] += times
        total = math.log(counts.total() + words.total() + len(counts) + 2)
        self._cost = {letter: total - math.log(count + 1) for letter, count in counts.items()}
        self._end = total - math.log(words.total() + 1)
        self._other = total + ANY_CHARACTER

    def cost(self, word: str) -> float:
        """Nats."""
        return sum(self._cost.get(letter, self._other) for letter in word) + self._end


def split(text: str) -> list[str]:
    """The words and marks of a text, without the spaces that are implied."""
    pieces = _PIECE.findall(text)
    said: list[str] = []
    for before, piece, after in zip(["", *pieces], pieces, [*pieces[1:], ""], strict=False):
        if piece == " " and _implied(before, after):
            continue
        if _implied(before, piece):
            said.append("")
        said.append(piece)
    return said


def join(pieces: Iterable[str]) -> str:
    """The text again."""
    said = [""]
    for piece in pieces:
        if _implied(said[-1], piece):
            said.append(" ")
        said.append(piece)
    return "".join(said)


def _implied(before: str, after: str) -> bool:
    """Whether a space between two pieces goes without saying."""
    return not (
        before in OPENING
        or after in CLOSING
        or not before
        or not after
        or before.isspace()
        or after.isspace()
    )
