"""The weights of a model: copied, put back, averaged over training, and stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ablations.store.files import NotAFileError, open_file, write_atomic
from ablations.store.record import Record
from ablations.store.stamp import short
from model.config import ConfigError


def named(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and stored buffers, tied ones once, under the first of their names."""
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
    if into.keys() != weights.keys():
        wrong = sorted(into.keys() ^ weights.keys())[0]
        raise ValueError(f"{wrong} is in one of the two alone")
    for name, tensor in into.items():
        if tensor.shape != weights[name].shape:
            shapes = f"{list(tensor.shape)}, not {list(weights[name].shape)}"
            raise ValueError(f"{name} has the shape {shapes}")
    for name, tensor in into.items():
        tensor.copy_(weights[name])


@contextmanager
def holding(model: nn.Module, weights: Mapping[str, Tensor] | None) -> Iterator[None]:
    """The model with these weights in place of its own; with its own where there are none."""
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
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.model, self.decay = model, decay
        self.weights = copied(model)
        pairs = zip(self.weights.values(), named(model).values(), strict=True)
        self._pairs = [pair for pair in pairs if pair[0].is_floating_point()]

    @torch.no_grad()
    def follow(self, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        means, now = zip(*self._pairs, strict=True)
        torch._foreach_lerp_(means, now, 1 - decay)

    def applied(self) -> AbstractContextManager[None]:
        """The model with the mean in place of its own weights."""
        return holding(self.model, self.weights)


def save_weights(model: nn.Module, path: Path, stamp: Mapping[str, str]) -> None:
    """Whole or not at all, with a stamp that says whose weights they are."""
    write_atomic(path, pack(named(model), stamp))


def load_weights(model: nn.Module, path: Path, stamp: Mapping[str, str]) -> None:
    """A file that is damaged, has another stamp or holds anything else is refused, never run."""
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
    """What the weights behind a record are stamped with: another code's are not its own."""
    return {"trial": record.trial, "code": short(record.env.get("code"))}


def stamp_of(path: Path) -> dict[str, str] | None:
    """Whose weights a file says it holds, by its header alone; None if it says nothing."""
    try:
        return read_words(path) or None
    except (OSError, ValueError):
        return None


def pack(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> bytes:
    """The bytes of a file with these tensors, and these words about them."""
    told = json.dumps({**words, "sha256": _checksum(tensors, words)}, sort_keys=True)
    # One entry: of several safetensors would write any one first.
    return save({name: t.contiguous() for name, t in tensors.items()}, metadata={"words": told})


def unpack(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """What was packed; OSError if nothing can be read, ValueError if it is not what was written."""
    try:
        with open_file(path), safe_open(path, "pt") as file:
            words = _words(file)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    if words.pop("sha256", None) != _checksum(tensors, words):
        raise ValueError("damaged: it is not what was written")
    return tensors, words


def read_words(path: Path) -> dict[str, str]:
    """The words alone, without the tensors and so without knowing whether all is whole."""
    try:
        with open_file(path), safe_open(path, "pt") as file:
            words = _words(file)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    words.pop("sha256", None)
    return words


def _words(file: Any) -> dict[str, str]:
    words = json.loads((file.metadata() or {}).get("words", "{}"))
    if not isinstance(words, dict):
        raise ValueError("damaged: its words are none")
    return words


def _checksum(tensors: Mapping[str, Tensor], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
