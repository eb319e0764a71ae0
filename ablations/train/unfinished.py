"""Where a training in progress is kept, so that a killed one loses minutes and not hours.

One file holds tensors and, as JSON, facts; where it is torn or damaged, the one before it is used.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor

from ablations.store.files import write_atomic
from ablations.train.stopping import Stopped as Stopped
from ablations.train.weights import pack, read_words, unpack

SECONDS = 60.0  # between two checkpoints of one training


class Keeper:
    """The checkpoints of one training: the newest and the one before."""

    def __init__(
        self,
        path: Path,
        stamp: dict[str, Any],
        seconds: float = SECONDS,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path = path
        self.previous = path.with_name(f"{path.name}.previous")
        self.stamp = stamp  # what a checkpoint must have been made with to be gone on from
        self.seconds, self.is_stopping = seconds, is_stopping
        self.earlier = 0.0  # seconds that stretches before this one took
        self._begun = self._saved = time.monotonic()
        self._is_whole = False  # the newest: only then may it take the place of the one before

    def is_due(self) -> bool:
        return self.is_stopping() or time.monotonic() - self._saved >= self.seconds

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Keep this state; then stop, if that was asked."""
        words = {"facts": json.dumps(facts), "stamp": json.dumps(self.stamp, sort_keys=True)}
        words["seconds"] = str(self.earlier + time.monotonic() - self._begun)
        data = pack(tensors, words)
        if self._is_whole:
            with contextlib.suppress(FileNotFoundError):  # another has ended this training since
                os.replace(self.path, self.previous)
        write_atomic(self.path, data)
        self._is_whole = True
        self._saved = time.monotonic()
        if self.is_stopping():
            raise Stopped

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest state that is whole and of this very training."""
        newest = self._read(self.path)
        self._is_whole = newest is not None
        return newest or self._read(self.previous)

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        try:
            tensors, words = unpack(path)
        except (OSError, ValueError):
            return None
        if words.get("stamp") != json.dumps(self.stamp, sort_keys=True):
            return None
        self.earlier = float(words["seconds"])
        return tensors, json.loads(words["facts"])


def code_of(path: Path) -> Any:
    """The code by which a checkpoint says it was made; None if it says nothing."""
    try:
        return json.loads(read_words(path)["stamp"])["code"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
