"""A trial with every default written out, checked: its parts against each other and its task."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ablations.plan.facts import model_facts, task_facts
from ablations.plan.own_parts import check_declarations, one_line_of_own_parts, refused
from ablations.store.identity import freeze
from model.config import ConfigError, nearest, validate

_HINT = re.compile(r"Did you mean '([\w-]+)'\?")
_WRONG = re.compile(r"([\w.-]+): no such (?:option|section)\. ")


def resolve_trial(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Task, model and training with every default written out, checked against each other."""
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
        "train": lambda written: {**vars(validate(TrainConfig, written, "train"))},
    }
    for name, check in sections.items():
        try:
            with one_line_of_own_parts(name):
                resolved[name] = check(tree.get(name, {}))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(_with_right_paths(problems, tree))
    if problems := refused(resolved["task"]):
        raise ConfigError(problems)
    model_facts(freeze(resolved["model"]), freeze(resolved["task"]))
    return resolved


def _with_right_paths(problems: Sequence[str], tree: Mapping[str, Any]) -> list[str]:
    """The problems; a path that does not exist is answered with the nearest one that does."""
    known = list(_paths(tree))

    def mended(problem: str) -> str:
        wrong = _WRONG.match(problem)
        if wrong is None:
            return problem
        beside = _HINT.fullmatch(problem[wrong.end() :])
        right = _right_path(wrong[1], known, beside[1] if beside else None)
        return problem if right is None else f"{wrong[0]}Did you mean '{right}'?"

    return [mended(problem) for problem in problems]


def _right_path(wrong: str, known: Sequence[str], beside: str | None) -> str | None:
    """The path elsewhere that ends in the same word, the option `beside` it that is like it, or the
    path that ends in the word most like its own; None where there is no such."""
    above, dot, name = wrong.rpartition(".")
    by_name: dict[str, list[str]] = {}
    for path in known:
        if path != wrong:
            by_name.setdefault(path.rpartition(".")[2], []).append(path)
    if name not in by_name and beside is not None:
        return f"{above}{dot}{beside}"
    like = [name] if name in by_name else difflib.get_close_matches(name, by_name, 1, 0.75)
    ending = [path for word in like for path in by_name[word]]
    return next(iter(difflib.get_close_matches(wrong, ending, 1, 0.0)), None)


def _paths(tree: Mapping[str, Any], above: str = "") -> Iterator[str]:
    """Every setting under its dotted path, choices as well as their options."""
    for key, value in tree.items():
        yield f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _paths(value, f"{above}{key}.")


@cache
def model_on_meta(frozen_model: str, frozen_task: str) -> Any:
    """The model on no device, checked against its task; ConfigError if the two do not fit."""
    import torch

    from model.build import build
    from model.heads import HEAD, Head
    from model.positions import Position

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
