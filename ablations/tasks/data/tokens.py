"""Tokenizers: characters, words, or byte pairs."""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from model.batch import BOS, EOS, PAD
from model.config import ConfigError, Registry

SPECIAL = ("<pad>", "<bos>", "<eos>")
assert (PAD, BOS, EOS) == (0, 1, 2)


class Vocabulary:
    """PAD, BOS and EOS, then an optional id for unknown symbols, then the symbols in order."""

    def __init__(self, symbols: Sequence[str], unknown: bool = False) -> None:
        special = (*SPECIAL, "<unk>") if unknown else SPECIAL
        self.names = (*special, *symbols)
        self.unknown = len(SPECIAL) if unknown else None
        self._ids = {symbol: index for index, symbol in enumerate(symbols, start=len(special))}
        assert len(self._ids) == len(symbols), "symbols are distinct"

    def __len__(self) -> int:
        return len(self.names)

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

    def show(self, ids: Iterable[int]) -> list[str]:
        """The symbols of ids, special ones included."""
        return [self.names[index] for index in ids]

    def decode(self, ids: Iterable[int]) -> str:
        """The same with spaces between, as `read` takes them."""
        return " ".join(self.show(ids))


TOKENS = Registry("tokens")

_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")  # and forbidden in XML

ANY_CHARACTER = math.log(0x110000)
"""Nats to encode any one character of Unicode."""


def learned(written: Any, text: str) -> Tokens:
    """The chosen tokenizer, learned from the training text."""
    try:
        tokens: Tokens = TOKENS.build(written, text=text)
    except ConfigError as error:
        raise ConfigError([f"tokens.{problem}" for problem in error.problems]) from None
    return tokens


class Tokens:
    """Text as token ids and back. Everything is learned from the training `text` alone.

    `spelling` charges what ids do not say, so that losses over any tokens can be compared: the
    nats of the ids and of the spelling together are the cost of the text to its last character.
    """

    size: int
    """The size of the vocabulary, with PAD, BOS and EOS, which come first."""

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError

    def decode(self, ids: Iterable[int]) -> str:
        raise NotImplementedError

    def spelling(self, text: str) -> float:
        """Nats for all of the text that has no id of its own."""
        return 0.0

    def show(self, ids: Iterable[int]) -> list[str]:
        """Each token as visible text: spaces, line ends and control characters become signs."""
        pieces = (self.decode([index]).replace("\n", "⏎") for index in ids)
        return [_UNSEEN.sub("�", re.sub(r"\s", "␣", piece)) or "∅" for piece in pieces]


@TOKENS.register("characters")
class Characters(Tokens):
    """The characters of the training text; any other is `<unk>` and charged as one of Unicode's."""

    def __init__(self, text: str) -> None:
        self.vocabulary = Vocabulary(sorted(set(text)), unknown=True)
        self.size = len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(text)

    def decode(self, ids: Iterable[int]) -> str:
        return "".join(self.vocabulary.show(ids))

    def spelling(self, text: str) -> float:
        unknown = self.vocabulary.unknown
        assert unknown is not None
        return ANY_CHARACTER * self.encode(text).count(unknown)


OPENING = frozenset("([{“‘")
CLOSING = frozenset(",.;:?!)]}”’")

_PIECE = re.compile(r"\w+(?:[-'’`]\w+)*|\s|[^\w\s]")
_SPECIAL = 4  # PAD, BOS, EOS and <unk>


@TOKENS.register("words")
class Words(Tokens):
    """The most frequent words of the training text; any other is `<unk>` and charged letter by
    letter.

    - A word is a run of letters and digits, with hyphens and apostrophes inside. Every other
      character is a token of its own: a mark, or white space that does not go without saying.
    - One space is implied between two tokens, but not after an opening mark, not before a closing
      one, and not next to white space.
    - Where the text has no space though one is implied, the empty token marks it.

    So any text can be rebuilt to its last character, as far as its words are known.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        size: int | None = 8000
        """Size of the vocabulary with special tokens; null: every word of the training text."""

        def __post_init__(self) -> None:
            if self.size is not None and self.size <= _SPECIAL:
                raise ConfigError([f"size={self.size}: must be above {_SPECIAL}, or null for all"])

    def __init__(self, config: Config, text: str) -> None:
        counts = Counter(split(text))
        named = sorted(counts, key=lambda word: (-counts[word], word))
        if config.size is not None:
            named = named[: config.size - _SPECIAL]
        self.vocabulary = Vocabulary(named, unknown=True)
        self.size = len(self.vocabulary)
        self._named = set(named)
        self._letters = Letters(counts)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.encode(split(text))

    def decode(self, ids: Iterable[int]) -> str:
        return join(self.vocabulary.show(ids))

    def spelling(self, text: str) -> float:
        return sum(self._letters.cost(word) for word in split(text) if word not in self._named)


class Letters:
    """The cost of spelling a word: its letters and its end, each as likely as in all words seen.

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
    """The text of these words and marks, spaces restored."""
    said = [""]
    for piece in pieces:
        if _implied(said[-1], piece):
            said.append(" ")
        said.append(piece)
    return "".join(said)


def _implied(before: str, after: str) -> bool:
    """Whether a space between two pieces is implied."""
    return not (
        before in OPENING
        or after in CLOSING
        or not before
        or not after
        or before.isspace()
        or after.isspace()
    )


_WITH_BYTES = 4 + 256  # PAD, BOS, EOS, an <unk> that nothing is encoded as, and the bytes
# SentencePiece would read the second as a space; it learns from lines, which have no line ends.
_AS_BYTES = re.compile("([\n▁])")


@TOKENS.register("bpe")
class BytePairs(Tokens):
    """Byte-pair encoding: frequent runs inside a word (Gage 1994, Sennrich et al. 2016).

    SentencePiece learns the runs from the training text as it is, without any normalisation. A
    character that it has not seen is written in bytes, so that nothing is lost.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        size: int = 2000
        """Size of the vocabulary with 260 special tokens; less if the text is too short."""

        def __post_init__(self) -> None:
            if self.size <= _WITH_BYTES:
                raise ConfigError([f"size={self.size}: must be above {_WITH_BYTES}"])

    def __init__(self, config: Config, text: str) -> None:
        if not text.strip("\n"):
            raise ConfigError(["name=bpe: the training text has only empty lines"])
        least = _WITH_BYTES + len(set(text) - {"\n"})
        if config.size < least:
            raise ConfigError(
                [f"size={config.size}: too few for the text's characters; choose {least} or more"]
            )
        self._pieces = learn(text, config.size)
        self._bytes = [self._pieces.piece_to_id(f"<0x{byte:02X}>") for byte in range(256)]
        self.size = self._pieces.get_piece_size()

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for part in _AS_BYTES.split(text):
            odd = part.encode() if _AS_BYTES.match(part) else b""
            ids += [self._bytes[byte] for byte in odd] or self._pieces.encode(part)
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        return self._pieces.decode(list(ids))


def learn(text: str, size: int) -> Any:
    """A SentencePiece processor; one thread and no sampling, so that it is always the same."""
    import sentencepiece

    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(text.split("\n")),
        model_writer=written,
        model_type="bpe",
        vocab_size=size,
        hard_vocab_limit=False,
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=3,
        byte_fallback=True,
        character_coverage=1.0,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        add_dummy_prefix=False,
        max_sentence_length=2**30,
        shuffle_input_sentence=False,
        num_threads=1,
        minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())
