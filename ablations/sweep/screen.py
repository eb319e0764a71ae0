"""Where a sweep shows itself, which may be gone at any time."""

from __future__ import annotations

from typing import Any, TextIO


class Screen:
    """A stream, or none; once it takes no more, all that is written to it is shown to nobody.

    A terminal is closed, a log is full, whoever read along has gone: the sweep is worth more.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:
        return getattr(self._stream, "encoding", None) or "utf-8"

    def write(self, text: str) -> int:
        self._do("write", text)
        return len(text)

    def flush(self) -> None:
        self._do("flush")

    def isatty(self) -> bool:
        return bool(self._do("isatty"))

    def _do(self, what: str, *words: str) -> Any:
        if self._stream is None:
            return None
        try:
            return getattr(self._stream, what)(*words)
        except (OSError, ValueError):  # ValueError: it is closed
            self._stream = None
            return None
