"""A token is a character."""

from __future__ import annotations

from collections.abc import Iterable

from ablations.tasks.data.tokens.family import ANY_CHARACTER, TOKENS, Tokens
from ablations.tasks.data.vocabulary import Vocabulary


@TOKENS.register("characters")
class Characters(Tokens):
    """The characters of the training text; any other is `<unk>` and charged as one of Unicode's."""

    def __init__(self, text: str) -> None:
        self.vocabulary = Vocabulary(sorted(set(text)), unknown=True)
        self.size = self.vocabulary.size

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.vocabulary.decode(ids))

    def spelling(self, text: str) -> float:
        unknown = self.vocabulary.unknown
        assert unknown is not None
        return ANY_CHARACTER * self.encode(text).count(unknown)
