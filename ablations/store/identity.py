"""The id of a trial: a hash of what decides its numbers, and of nothing else."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

TUNING = (100, 101)
"""Seeds of tuning, which are never reported."""
DECIDING = tuple(range(300, 310))
"""Seeds that are reported. Questions, metrics and margins were written before they were run."""

# Options of a training that do not change a single step.
_BEYOND_A_STEP = ("steps", "schedule", "evaluations", "select", "average")


def value_at(tree: Any, path: str, default: Any = None) -> Any:
    """The value at a path of a config, such as `train.steps`, or the default."""
    for key in path.split("."):
        if not isinstance(tree, Mapping) or key not in tree:
            return default
        tree = tree[key]
    return tree


def canonical_json(plain: Any) -> str:
    """JSON with sorted keys: equal settings give equal text."""
    return json.dumps(plain, sort_keys=True, allow_nan=False)


def decisive(
    config: Mapping[str, Any], data: str, files: Collection[str], trained: bool = True
) -> dict[str, str]:
    """What decides a trial's numbers besides the seed, as JSON; a digest replaces data files.

    An untrained trial has an id of its own. Of the training only a single step counts: it is timed.
    """
    options = {key: value for key, value in config["task"].items() if key not in files}
    parts = {"data": data, "task": options, "model": config["model"]}
    if trained:
        parts["train"] = config["train"]
    else:
        step = {key: value for key, value in config["train"].items() if key not in _BEYOND_A_STEP}
        parts |= {"trained": False, "step": step}
    return {name: canonical_json(part) for name, part in parts.items()}


def settings(parts: Mapping[str, str]) -> str:
    """Twelve hex digits of these parts; without a seed, equal for all seeds."""
    text = ", ".join(f'"{name}": {parts[name]}' for name in sorted(parts))
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()[:12]


def identity(parts: Mapping[str, str], seed: int) -> str:
    """Twelve hex digits: the trial's id."""
    return settings({**parts, "seed": canonical_json(seed)})
