"""Published models by name: a choice of every component, and the vocabulary that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from model.config import ConfigError, nearest
from model.strict_yaml import parse_yaml

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Preset:
    """The arguments of `build`, without a seed."""

    name: str
    model: dict[str, Any]
    source_size: int | None
    target_size: int


def names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Preset:
    """The preset of that name, as its file has it."""
    if name not in names():
        raise ConfigError([f"no preset '{name[:100]}'. {nearest(name[:100], names())}"])
    file = FOLDER / f"{name}.yaml"
    return Preset(name=name, **parse_yaml(file.read_text(encoding="utf-8"), file.name).values)
