"""Reads the YAML files of `profiles/`, which say how much to spend."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablations.config import FOLDER, read_yaml
from ablations.store.identity import DECIDING
from model.config import ConfigError, is_number, nearest
from model.strict_yaml import Source

PROFILES = ("smoke", "quick", "full", "gpu")  # from the least on


@dataclass(frozen=True)
class Profile:
    """How much to spend."""

    name: str
    seeds: int
    """How many of the reported seeds, from the first."""
    timing: dict[str, Any]
    settings: Source
    """Task → {path: value}."""
    required: Sequence[str] = ()
    """Paths that must be set for every task: smoke names the steps, to be small for any task."""
    most: Mapping[str, float] = field(default_factory=dict)
    """Path → upper limit of an experiment's own setting."""
    times: Mapping[str, float] = field(default_factory=dict)
    """Path → factor of an experiment's own setting."""

    def multiplied(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """An experiment's own settings at this profile."""
        return {
            path: round(value * self.times[path])
            if path in self.times and is_number(value)
            else value
            for path, value in settings.items()
        }

    def of(self, task: str, given: Collection[str]) -> dict[str, Any]:
        """Path → value for a task; ConfigError if a required path is neither here nor `given`."""
        found: dict[str, Any] = self.settings.values.get(task) or {}
        for path in self.required:
            if path not in found and path not in given:
                raise ConfigError(
                    [f"{self.settings.place(task)}: no {path} for the task '{task}', which would "
                     f"run at full size; add `{task}: {{{path}: …}}` to "
                     f"ablations/profiles/{self.name}.yaml, or write {path}=… on the command line"]
                )  # fmt: skip
        return found


def find_profile(name: str) -> Path:
    known = {path.stem: path for path in (FOLDER / "profiles").glob("*.yaml")}
    if name not in known:
        raise ConfigError([f"no profile '{name[:100]}'. {nearest(name[:100], known)}"])
    return known[name]


def read_profile(name: str) -> Profile:
    source = read_yaml(find_profile(name))
    values = dict(source.values)
    seeds, timing, required = values.pop("seeds"), values.pop("timing"), values.pop("required", ())
    most, times = values.pop("most", {}), values.pop("times", {})
    if not isinstance(seeds, int) or not 1 <= seeds <= len(DECIDING):
        raise ConfigError(
            [f"{source.place('seeds')}: expected 1 to {len(DECIDING)} seeds, got {seeds!r}"]
        )
    rest = Source(source.name, values, source.lines)
    return Profile(name, seeds, timing, rest, required, most, times)
