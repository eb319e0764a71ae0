"""Symbols as token ids, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from model.batch import BOS, EOS, PAD

SPECIAL = ("<pad>", "<bos>", "<eos>")
assert (PAD, BOS, EOS) == (0, 1, 2)


class Vocabulary:
    """PAD, BOS and EOS, then perhaps one id for all that is unknown, then the symbols in order."""

    def __init__(self, symbols: Sequence[str], unknown: bool = False) -> None:
        special = (*SPECIAL, "<unk>") if unknown else SPECIAL
        self.names = (*special, *symbols)
        self.unknown = len(SPECIAL) if unknown else None
        self._ids = {symbol: index for index, symbol in enumerate(symbols, start=len(special))}
        assert len(self._ids) == len(symbols), "symbols are distinct"

    def __len__(self) -> int:
        return len(self.names)

    @property
    def size(self) -> int:
        return len(self)

    def encode(self, symbols: Iterable[str]) -> list[int]:
        """The ids of symbols; a ValueError names one that has none."""
        if self.unknown is not None:
            return [self._ids.get(symbol, self.unknown) for symbol in symbols]
        try:
            return [self._ids[symbol] for symbol in symbols]
        except KeyError as error:
            raise ValueError(f"{error.args[0]!r} is not in the vocabulary") from None

    def read(self, text: str, example: str) -> list[int]:
        """The ids of symbols with spaces between; a ValueError shows how they are written."""
        symbols = text.split()
        wrong = next((symbol for symbol in symbols if symbol not in self._ids), None)
        if symbols and wrong is None:
            return self.encode(symbols)
        problem = "the input is empty" if wrong is None else f"{wrong!r} is not in the vocabulary"
        raise ValueError(f"{problem}: write it like {example}")

    def decode(self, ids: Iterable[int]) -> list[str]:
        """What ids stand for; a model that errs may also have written special ones."""
        return [self.names[index] for index in ids]
