"""A token is a frequent run of characters inside a word (Gage 1994, Sennrich et al. 2016).

SentencePiece learns the runs from the training text as it is, without any normalisation. A
character that it has not seen is written in bytes, so that nothing is lost.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ablations.tasks.data.tokens.family import TOKENS, Tokens
from model.batch import BOS, EOS, PAD
from model.config import ConfigError

_SPECIAL = 4 + 256  # PAD, BOS, EOS, an <unk> that nothing is encoded as, and the bytes
# SentencePiece would read the second as a space; it learns from lines, which have no line ends.
_AS_BYTES = re.compile("([\n▁])")


@TOKENS.register("bpe")
class BytePairs(Tokens):
    """Byte-pair encoding."""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        size: int = 2000
        """Of the vocabulary, 260 special tokens included; less where the text is too short."""

        def __post_init__(self) -> None:
            if self.size <= _SPECIAL:
                raise ConfigError([f"size={self.size}: must be above {_SPECIAL}"])

    def __init__(self, config: Config, text: str) -> None:
        import sentencepiece

        if not text.strip("\n"):
            raise ConfigError(["name=bpe: the training text has only empty lines"])
        least = _SPECIAL + len(set(text) - {"\n"})
        if config.size < least:
            raise ConfigError(
                [f"size={config.size}: too few for the text's characters; choose {least} or more"]
            )
        learned = learn(text, config.size)
        self._pieces = sentencepiece.SentencePieceProcessor(model_proto=learned)
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


def learn(text: str, size: int) -> bytes:
    """A SentencePiece model; one thread and no sampling, so that it is always the same."""
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
    return written.getvalue()
