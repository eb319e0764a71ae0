"""The ways to cut a text into tokens."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from model.family import Family

TOKENS = Family("tokens")

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # nor may it stand in XML

ANY_CHARACTER = math.log(0x110000)
"""Nats that name one character among all of Unicode."""


class Tokens:
    """Text as token ids and back. What there is to know comes from the training `text` alone.

    `spelling` charges what ids do not say, so that losses over any tokens can be compared: the
    nats of the ids and of the spelling together are the cost of the text to its last character.
    """

    size: int
    """Of the vocabulary, with PAD, BOS and EOS, which come first."""

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        raise NotImplementedError

    def spelling(self, text: str) -> float:
        """Nats for all of the text that has no id of its own."""
        return 0.0

    def show(self, ids: Iterable[int]) -> list[str]:
        """Each token for a reader's eye, spaces, line ends and what cannot be seen as signs."""
        pieces = (self.decode([index]).replace("\n", "⏎") for index in ids)
        return [_UNSEEN.sub("�", re.sub(r"\s", "␣", piece)) or "∅" for piece in pieces]
