"""How much to spend, as a profile's YAML file says it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ablations.plan.source import FOLDER, Source, read_yaml
from model.config import ConfigError, nearest


@dataclass(frozen=True)
class Profile:
    """How much to spend."""

    name: str
    seeds: list[int]
    timing: dict[str, Any]
    settings: Source
    """Task → {path: value}."""


def find_profile(name: str) -> Path:
    known = {path.stem: path for path in (FOLDER / "profiles").glob("*.yaml")}
    if name not in known:
        raise ConfigError([f"no profile '{name[:100]}'. {nearest(name[:100], known)}"])
    return known[name]


def read_profile(name: str) -> Profile:
    source = read_yaml(find_profile(name))
    values = dict(source.values)
    return Profile(
        name, values.pop("seeds"), values.pop("timing"), Source(source.name, values, source.lines)
    )
