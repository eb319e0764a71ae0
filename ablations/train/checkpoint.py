"""Checkpoints: the weights of a trained model, and the state of a training in progress.

Both are safetensors files. Their header says what made them and holds a SHA-256 checksum.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ablations.signals import Stopped
from ablations.store.files import NotAFileError, open_file, write_atomic
from ablations.store.record import Record
from ablations.store.stamp import short
from model.config import ConfigError

SECONDS = 60.0  # between two checkpoints of one training


class Checkpointer:
    """The checkpoints of one training: the newest and, in case that one is damaged, the one before.

    `stamp` is what a checkpoint must have been made with to be resumed.
    """

    def __init__(
        self,
        path: Path,
        stamp: Mapping[str, str],
        seconds: float = SECONDS,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.path, self.previous = path, path.with_name(f"{path.name}.previous")
        self.stamp = stamp
        self.seconds, self.is_stopping = seconds, is_stopping
        self.earlier = 0.0  # seconds of training before this process
        self._begun = self._saved = time.monotonic()
        self._is_whole = False  # whether the newest is; only then may it replace the one before

    def is_due(self) -> bool:
        return self.is_stopping() or time.monotonic() - self._saved >= self.seconds

    def save(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Write this state; then raise `Stopped` if a stop was requested."""
        seconds = self.earlier + time.monotonic() - self._begun
        data = pack(tensors, {"facts": json.dumps(facts), "seconds": str(seconds), **self.stamp})
        if self._is_whole:
            with contextlib.suppress(FileNotFoundError):  # another process finished this training
                os.replace(self.path, self.previous)
        write_atomic(self.path, data)
        self._is_whole = True
        self._saved = time.monotonic()
        if self.is_stopping():
            raise Stopped

    def load(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """The newest undamaged state of this training."""
        newest = self._read(self.path)
        self._is_whole = newest is not None
        return newest or self._read(self.previous)

    def _read(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        try:
            tensors, words = unpack(path)
        except (OSError, ValueError):
            return None
        if not self.stamp.items() <= words.items():
            return None
        self.earlier = float(words["seconds"])
        return tensors, json.loads(words["facts"])


def save_weights(model: nn.Module, path: Path, stamp: Mapping[str, str]) -> None:
    """Write a model's weights with a stamp that says whose they are."""
    write_atomic(path, pack(named(model), stamp))


def load_weights(model: nn.Module, path: Path, stamp: Mapping[str, str]) -> None:
    """ConfigError if the file is damaged, has another stamp or does not fit the model."""
    try:
        weights, found = unpack(path)
        if found != stamp:
            name = next(key for key in {**stamp, **found} if stamp.get(key) != found.get(key))
            raise ValueError(f"its {name} is {found.get(name)}, not {stamp.get(name)}")
        restore(model, weights)
    except (ValueError, NotAFileError) as error:
        why = error.strerror if isinstance(error, NotAFileError) else error
        problem = f"{path}: not a checkpoint of this trial ({why}); "
        raise ConfigError([f"{problem}delete it to train again"]) from None


def stamp_for(record: Record) -> dict[str, str]:
    """The stamp of the weights that belong to a record."""
    return {"trial": record.id, "code": short(record.env.get("code"))}


def stamp_of(path: Path) -> dict[str, str]:
    """The stamp in a file's header, without a check of its tensors; empty if it is unreadable."""
    try:
        with _opened(path) as (_, words):
            words.pop("sha256", None)
            return words
    except (OSError, ValueError):
        return {}


def pack(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> bytes:
    """The bytes of a file with these tensors, and these words in its header."""
    header = json.dumps({**words, "sha256": _checksum(tensors, words)}, sort_keys=True)
    # One entry: safetensors writes several in any order.
    return save({name: t.contiguous() for name, t in tensors.items()}, metadata={"words": header})


def unpack(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and words of a file; OSError if it is unreadable, ValueError if damaged."""
    with _opened(path) as (file, words):
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    if words.pop("sha256", None) != _checksum(tensors, words):
        raise ValueError("damaged: it is not what was written")
    return tensors, words


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    try:
        with open_file(path), safe_open(path, "pt") as file:
            words = json.loads((file.metadata() or {}).get("words", "{}"))
            if not isinstance(words, dict):
                raise ValueError("damaged: its header holds no words")
            yield file, words
    except SafetensorError as error:
        raise ValueError(str(error)) from None


def _checksum(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def named(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and stored buffers; tied ones once, under the first of their names."""
    seen: dict[int, str] = {}
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if seen.setdefault(id(tensor), name) == name:
            found[name] = tensor.detach()
    return found


def copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in named(model).items()}


@torch.no_grad()
def restore(model: nn.Module | Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    """Write `weights` into a model, or into tensors of the same names."""
    into = named(model) if isinstance(model, nn.Module) else model
    assert into.keys() == weights.keys()
    for name, tensor in into.items():
        tensor.copy_(weights[name])


@contextmanager
def holding(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """The model with these weights in place of its own; None leaves its own."""
    if weights is None:
        yield
        return
    own = copied(model)
    restore(model, weights)
    try:
        yield
    finally:
        restore(model, own)


class Average:
    """A running mean of the weights over training: θ̄ ← d θ̄ + (1 − d) θ (Polyak & Juditsky 1992).

    At step t the decay is at most (1 + t) / (10 + t), so that the first weights are soon forgotten.
    Without a decay there is no mean: `weights` is None.
    """

    def __init__(self, model: nn.Module, decay: float | None) -> None:
        self.model, self.decay = model, decay or 0.0
        self.weights = None if decay is None else copied(model)
        means, now = self.weights or {}, named(model)
        self._pairs = [(t, now[name]) for name, t in means.items() if t.is_floating_point()]

    @torch.no_grad()
    def follow(self, step: int) -> None:
        if self._pairs:
            decay = min(self.decay, (1 + step) / (10 + step))
            means, now = zip(*self._pairs, strict=True)
            torch._foreach_lerp_(means, now, 1 - decay)

    def applied(self) -> AbstractContextManager[None]:
        """The model with the mean in place of its own weights, where there is one."""
        return holding(self.model, self.weights)
