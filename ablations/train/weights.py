"""The weights of a model: copied, put back, averaged over training, and stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from ablations.store.files import NotAFileError, write_atomic
from ablations.store.record import Record
from ablations.store.stamp import short
from ablations.train.tensors import pack, read_words, unpack
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
