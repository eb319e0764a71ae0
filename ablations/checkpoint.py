"""Where a training in progress is kept, so that a killed one loses minutes and not hours.

One safetensors file holds tensors and, as JSON, facts; its checksum tells a torn or damaged file,
and then the one before it is used. No pickle is ever read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ablations.record import write_atomic
from ablations.stop import Stopped as Stopped

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
        words["sha256"] = _checksum(tensors, words)
        data = save({name: t.contiguous() for name, t in tensors.items()}, metadata=words)
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
            with safe_open(path, "pt") as file:
                words = file.metadata() or {}
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError):
            return None
        if words.get("stamp") != json.dumps(self.stamp, sort_keys=True):
            return None
        if words.pop("sha256", None) != _checksum(tensors, words):
            return None
        self.earlier = float(words["seconds"])
        return tensors, json.loads(words["facts"])


def _checksum(tensors: dict[str, Tensor], words: dict[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
