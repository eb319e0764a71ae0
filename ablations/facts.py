"""Sizes of tasks and models, and the source files that decide their numbers. All are cached."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from ablations.store.identity import canonical_json, decisive, identity
from ablations.store.stamp import Stamp, is_counted, stamp
from ablations.tasks import TASK
from ablations.tasks.task import load_task
from model.config import ConfigError

if TYPE_CHECKING:
    from model.flops import Cost


class TaskSizes(NamedTuple):
    """The sizes of a task that a model must fit."""

    kind: str
    per: str
    source_size: int | None
    target_size: int
    longest: int


class ModelFacts(NamedTuple):
    """The facts about a model that a plan needs."""

    parameters: int
    modules: list[str]
    """The Python modules that define its components."""


@cache
def task_sizes(frozen_task: str) -> TaskSizes:
    """ConfigError if there is no such task."""
    with user_code_errors("task"):
        task = load_task(frozen_task)
        return TaskSizes(*(getattr(task, name) for name in TaskSizes._fields))


def model_facts(frozen_model: str, frozen_task: str) -> ModelFacts:
    """ConfigError if the model cannot be built or does not fit its task."""
    try:
        task = task_sizes(frozen_task)
    except ConfigError as error:
        lines = [each if each.startswith("task: ") else f"task.{each}" for each in error.problems]
        raise ConfigError(lines) from None
    return _facts_of_model(frozen_model, task)


@cache
def _facts_of_model(frozen_model: str, task: TaskSizes) -> ModelFacts:
    from model.flops import parameters

    model = _model_on_meta(frozen_model, task)
    modules = sorted({type(module).__module__ for module in model.modules()})
    return ModelFacts(parameters(model), modules)


@cache
def cost_of(frozen_model: str, frozen_task: str) -> Cost:
    """FLOPs and memory of a model on its task's longest sequences.

    The model runs on the meta device, which is too slow for every model of a plan.
    """
    import torch

    from model.flops import count

    task = task_sizes(frozen_task)
    model = _model_on_meta(frozen_model, task)
    with torch.device("meta"):
        return count(model, None if task.source_size is None else task.longest, task.longest)


def _model_on_meta(frozen_model: str, task: TaskSizes) -> Any:
    """The model on the meta device, checked against its task; ConfigError if they do not fit."""
    import torch

    from model.build import build
    from model.heads import HEAD, Head
    from model.positions import Position

    written = json.loads(frozen_model)
    kind = written.get("kind", task.kind)
    if kind != task.kind:
        raise ConfigError([f"model.kind={kind}: this task needs {task.kind}"])
    with user_code_errors("model"):
        try:
            with torch.device("meta"):
                model = build(written, task.source_size, task.target_size, seed=None)
        except ConfigError as error:
            raise ConfigError([f"model.{problem}" for problem in error.problems]) from None
        except (ValueError, RuntimeError) as error:  # RuntimeError: too many weights to count
            raise ConfigError([f"model: d_model or another size: {error}"]) from None
    _check_user_model(model, task)
    head = getattr(model, "head", None)
    if isinstance(head, Head) and head.per != task.per:
        fitting = [name for name, part in HEAD.components.items() if part.per == task.per]
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


def decisive_parts(config: Mapping[str, Any], trained: bool = True) -> dict[str, str]:
    """Everything but the seed that decides a trial's numbers, with the digest of its data."""
    with user_code_errors("task"):
        task = load_task(canonical_json(config["task"]))
        return decisive(config, task.digest(), task.files, trained)


def identity_of(config: Mapping[str, Any], trained: bool = True) -> str:
    """A trial's id."""
    return identity(decisive_parts(config, trained), config["seed"])


# The source files that decide a trial's numbers.

# These store or score the numbers of a training; they do not change them.
_NOT_COUNTED = ("ablations.store", "ablations.tasks.scoring", "ablations.signals", "model.generate")
# These count without their imports, of which a trial may use few: `build` imports every component.
_JOINT = "model.build"
_SHARED = ("ablations.train.pack", "ablations.train.ddp")


@cache
def training_code(frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files of the model's components, the task and the trainer, with everything they import.

    Components that the trial does not use do not count; a user's own component does.
    """
    from ablations.train.config import OPTIMIZER, SCHEDULE
    from model.init import INIT

    written, train = json.loads(frozen_model), json.loads(frozen_train)
    choices = [(OPTIMIZER, train["optimizer"]), (SCHEDULE, train["schedule"])]
    choices += [(INIT, written["init"])] if "init" in written else []
    task = load_task(frozen_task)
    roots = set(model_facts(frozen_model, frozen_task).modules)
    roots |= {type(part).__module__ for part in (task, *vars(task).values())}
    roots |= {family.component(choice["name"]).__module__ for family, choice in choices}
    roots |= {"ablations.train.loop", "model.init"}
    roots = {name for name in roots if is_counted(name) and not _is_not_counted(name)}
    return stamp(roots, _is_not_counted) | stamp([_JOINT, *_SHARED], lambda _: True)


def _is_not_counted(module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in _NOT_COUNTED)


@cache
def source_code(source: str, frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files of an evaluation, probe or benchmark, without those of the training code."""
    from ablations.measurement import discover, is_benchmark

    roots = {discover().component(source).__module__, type(load_task(frozen_task)).__module__}
    roots |= {"ablations.benchmarks.session"} if is_benchmark(source) else set()
    trained_by = training_code(frozen_model, frozen_task, frozen_train)
    found = stamp(roots, lambda name: name == _JOINT or name.startswith("ablations.store."))
    return {name: digest for name, digest in found.items() if name not in trained_by}


# A mistake in a user's own component is reported in one line, before anything trains.


def _all_parts_are_ours() -> bool:
    """Whether the user has imported no component of their own."""
    from ablations.train.config import OPTIMIZER, SCHEDULE
    from model.build import REGISTRIES

    return all(
        part.__module__.startswith(("model.", "ablations."))
        for family in (*REGISTRIES, TASK, OPTIMIZER, SCHEDULE)
        for part in family.components.values()
    )


@contextlib.contextmanager
def user_code_errors(place: str) -> Iterator[None]:
    """Turn an exception of a user's component into a ConfigError; those of ours pass through."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if _all_parts_are_ours():
            raise
        said = f"{place}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError([said.removesuffix(": ")]) from None


def _check_user_model(model: Any, task: TaskSizes) -> None:
    """ConfigError if a user's module declares no initial values, or fails on the meta device."""
    if _all_parts_are_ours():
        return
    import torch

    from model.batch import Batch
    from model.init import logical_parameters

    try:
        for _ in logical_parameters(model):
            pass
    except TypeError as error:
        fix = "add it to its `roles`: a number to start at, 'weight' or 'embedding' to be drawn"
        raise ConfigError([f"model: {error}; {fix}"]) from None
    with user_code_errors("model"), torch.device("meta"):
        tokens = torch.zeros(1, task.longest, dtype=torch.long)
        source = None if task.source_size is None else tokens
        model(Batch(labels=tokens, inputs=tokens, source=source))
