"""A trial with every default written out, checked: its parts against each other and its task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from ablations.plan.facts import has_our_data, model_facts, task_facts
from ablations.plan.memory import is_ours, memory
from ablations.plan.own_files import refused
from ablations.plan.own_parts import check_declarations, one_line_of_own_parts
from ablations.plan.suggestions import with_right_paths
from ablations.store.frozen import freeze
from model.config import ConfigError, nearest, validate


def resolve_trial(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Task, model and training with every default written out, checked against each other."""
    written = _written(tree) if is_ours() else None
    known = None if written is None else memory().recall("trials", written)
    if isinstance(known, str):
        return dict(json.loads(known))
    resolved = _resolved(tree)
    if written is not None and has_our_data(freeze(resolved["task"])):
        memory().note("trials", written, json.dumps(resolved))
    return resolved


def _written(tree: Mapping[str, Any]) -> str | None:
    """The tree as one text; None where it holds what no trial can."""
    try:
        return freeze(tree)
    except (ValueError, TypeError):
        return None


def _resolved(tree: Mapping[str, Any]) -> dict[str, Any]:
    from ablations.tasks import TASK
    from ablations.train.settings import TrainConfig
    from model.build import resolve

    problems = [
        f"{key}: no such section. {nearest(key, ('task', 'model', 'train'))}"
        for key in tree.keys() - {"task", "model", "train"}
    ]
    resolved: dict[str, Any] = {}
    sections = {
        "task": lambda written: TASK.resolve(written, "task"),
        "model": resolve,
        "train": lambda written: _plain(validate(TrainConfig, written, "train")),
    }
    for name, check in sections.items():
        try:
            with one_line_of_own_parts(name):
                resolved[name] = check(tree.get(name, {}))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(with_right_paths(problems, tree))
    if problems := refused(resolved["task"]):
        raise ConfigError(problems)
    model_facts(freeze(resolved["model"]), freeze(resolved["task"]))
    return resolved


def _plain(config: Any) -> dict[str, Any]:
    return dict(vars(config))


@cache
def model_on_meta(frozen_model: str, frozen_task: str) -> Any:
    """The model on no device, checked against its task; ConfigError if the two do not fit."""
    import torch

    from model.build import build
    from model.head import HEAD, Head
    from model.position import Position

    try:
        task = task_facts(frozen_task)
    except ConfigError as error:
        told = [each if each.startswith("task: ") else f"task.{each}" for each in error.problems]
        raise ConfigError(told) from None
    written = json.loads(frozen_model)
    kind = written.get("kind", task.kind)
    if kind != task.kind:
        raise ConfigError([f"model.kind={kind}: this task needs {task.kind}"])
    with one_line_of_own_parts("model"):
        try:
            with torch.device("meta"):
                model = build(written, task.source_size, task.target_size, seed=None)
        except ConfigError as error:
            raise ConfigError([f"model.{problem}" for problem in error.problems]) from None
        except (ValueError, RuntimeError) as error:  # RuntimeError: too many weights to count
            raise ConfigError([f"model: d_model or another size: {error}"]) from None
    check_declarations(model, task)
    head = getattr(model, "head", None)
    if isinstance(head, Head) and head.per != task.per:
        fitting = [name for name, part in HEAD.parts.items() if part.per == task.per]
        name = written["head"]["name"]
        raise ConfigError(
            [f"model.head={name}: this task has a label for each {task.per}; "
             f"choose {' or '.join(fitting)}"]
        )  # fmt: skip
    for module in model.modules():
        if isinstance(module, Position):
            try:
                module.check(task.longest)
            except ValueError as error:
                raise ConfigError([f"model.max_len: {error}"]) from None
    return model
