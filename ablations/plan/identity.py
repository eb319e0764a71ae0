"""What a config's id is, with the data as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablations.plan.facts import task_facts
from ablations.store.identity import decisive, freeze, identity
from ablations.tasks.cache import load_task


def decisive_parts(config: Mapping[str, Any], trained: bool = True) -> dict[str, str]:
    """What decides a trial's numbers besides its seed, with what is known of its task's data."""
    from ablations.tasks import TASK

    digest = task_facts(freeze(config["task"])).digest
    return decisive(config, digest, TASK.part(config["task"]["name"]).files, trained)


def identity_of(config: Mapping[str, Any], trained: bool = True) -> str:
    """The id by the data itself, which is read: nothing that was known before counts."""
    task = load_task(freeze(config["task"]))
    return identity(decisive(config, task.digest(), task.files, trained), config["seed"])
