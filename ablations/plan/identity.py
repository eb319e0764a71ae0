"""What a config's id is, with the data as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.store.frozen import freeze
from ablations.store.identity import decisive, identity
from ablations.tasks.cache import load_task


def decisive_parts(config: Mapping[str, Any], trained: bool = True) -> dict[str, str]:
    """What decides a trial's numbers besides its seed; its task is read for the data's digest."""
    task = load_task(freeze(config["task"]))
    return decisive(config, task.digest(), task.files, trained)


def identity_of(config: Mapping[str, Any], trained: bool = True) -> str:
    return identity(decisive_parts(config, trained), config["seed"])
