"""What really differs between two trials: settings, counts, modules, weights at the start."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from ablations.expand import Trial
from ablations.facts import cost_of, model_facts, task_sizes
from model.build import build

_ABSENT = "—"


def difference(one: Trial, other: Trial) -> dict[str, Any]:
    """A document with `settings`, `parameters`, `flops_per_token`, `modules` and `start_equal`."""
    sections = [(trial.sections["model"], trial.sections["task"]) for trial in (one, other)]
    tasks = [task_sizes(task) for _, task in sections]
    models = [
        build(json.loads(model), task.source_size, task.target_size, seed=0)
        for (model, _), task in zip(sections, tasks, strict=True)
    ]
    named = [_named(model) for model in models]
    return {
        "settings": _changes(*(dict(_paths(trial.config)) for trial in (one, other))),
        "parameters": [model_facts(*each).parameters for each in sections],
        "flops_per_token": [cost_of(*each).flops_per_token for each in sections],
        "modules": _changes(*named),
        "start_equal": _equal_share(*models),
    }


def _paths(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    """Every setting under its dotted path; the seed is none."""
    found: list[tuple[str, str]] = []
    for key, value in tree.items():
        if isinstance(value, Mapping):
            found += _paths(value, f"{above}{key}.")
        elif above:
            found.append((above + key, json.dumps(value, ensure_ascii=False).strip('"')))
    return found


def _named(model: nn.Module) -> dict[str, str]:
    """Each module's class and sizes by its name, blocks of a stack taken together."""
    found: dict[str, dict[str, None]] = {}
    for name, module in model.named_modules():
        if not name or isinstance(module, nn.ModuleList):
            continue
        sizes = module.extra_repr()
        words = type(module).__name__ + (f"({sizes})" if sizes else "")
        found.setdefault(re.sub(r"\.\d+(?=\.|$)", ".*", name), {})[words] = None
    return {name: ", ".join(words) for name, words in found.items()}


def _changes(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, list[str]]:
    """What differs. A module that only one side has is listed without its submodules."""
    found: dict[str, list[str]] = {}
    for name in {**one, **other}:
        pair = [side.get(name, _ABSENT) for side in (one, other)]
        above = [name[: match.start()] for match in re.finditer(r"\.", name)]
        is_inside = any(_ABSENT in found.get(each, ()) for each in above)
        if pair[0] != pair[1] and not is_inside:
            found[name] = pair
    return found


def _equal_share(one: nn.Module, other: nn.Module) -> list[float]:
    """The share of each model's weights that start as the other's of the same name do."""
    weights = [dict(model.named_parameters()) for model in (one, other)]
    equal = sum(
        tensor.numel()
        for name, tensor in weights[0].items()
        if name in weights[1] and torch.equal(tensor, weights[1][name])
    )
    return [equal / max(1, sum(map(torch.numel, side.values()))) for side in weights]
