"""Tensors and words as one safetensors file holds them, with a checksum over both.

A torn or damaged file is told from a whole one. No pickle is ever read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ablations.store.files import open_file


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
