"""What a plan must know of tasks and models, read from the data or built once a process: sizes,
and which source files decide their numbers.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ablations.store.identity import canonical_json, decisive, identity
from ablations.store.stamp import Stamp, is_counted, stamp
from ablations.tasks import TASK
from ablations.tasks.task import load_task
from model.config import ConfigError


@dataclass(frozen=True)
class TaskFacts:
    """A task, without its data."""

    digest: str
    kind: str
    per: str
    source_size: int | None
    target_size: int
    longest: int
    module: str
    modules: list[str]
    """The modules, ours and the user's, that define the task and the objects it holds."""


@dataclass(frozen=True)
class ModelFacts:
    """A model that fits its task, without its weights."""

    parameters: int
    modules: list[str]
    """The Python modules that define its pieces."""


@dataclass(frozen=True)
class CostFacts:
    """What a model does with a token of its task's longest sequences."""

    flops_per_token: float
    kept_bytes: float
    """For the backward pass on a CPU."""


@cache
def task_facts(frozen_task: str) -> TaskFacts:
    """ConfigError where there is no such task."""
    with user_code_errors("task"):
        task: Any = load_task(frozen_task)
        held = {type(part).__module__ for part in (task, *vars(task).values())}
        return TaskFacts(
            task.digest(),
            task.kind,
            task.per,
            task.source_size,
            task.target_size,
            task.longest,
            type(task).__module__,
            sorted(filter(is_counted, held)),
        )


@cache
def model_facts(frozen_model: str, frozen_task: str) -> ModelFacts:
    """ConfigError where the model cannot be built, or does not fit its task."""
    from model.flops import parameters

    model = model_on_meta(frozen_model, frozen_task)
    modules = sorted({type(module).__module__ for module in model.modules()})
    return ModelFacts(parameters(model), modules)


@cache
def cost_facts(frozen_model: str, frozen_task: str) -> CostFacts:
    """Counted by running the model on the meta device: too slow for a plan of many models, so it
    waits until a trial is sent to a worker, or is compared with another."""
    import torch

    from model.flops import count

    model, task = model_on_meta(frozen_model, frozen_task), task_facts(frozen_task)
    source_length = None if task.source_size is None else task.longest
    with torch.device("meta"):
        cost = count(model, source_length, task.longest)
    return CostFacts(cost.flops_per_token, cost.kept_bytes / cost.tokens)


@cache
def model_on_meta(frozen_model: str, frozen_task: str) -> Any:
    """The model on the meta device, checked against its task; ConfigError if they do not fit."""
    import torch

    from model.build import build
    from model.heads import HEAD, Head
    from model.positions import Position

    try:
        task = task_facts(frozen_task)
    except ConfigError as error:
        lines = [each if each.startswith("task: ") else f"task.{each}" for each in error.problems]
        raise ConfigError(lines) from None
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
    """What decides a trial's numbers besides its seed, with what is known of its task's data."""
    digest = task_facts(canonical_json(config["task"])).digest
    return decisive(config, digest, TASK.component(config["task"]["name"]).files, trained)


def identity_of(config: Mapping[str, Any], trained: bool = True) -> str:
    """A trial's id, with its data read afresh: nothing remembered from a plan counts."""
    task = load_task(canonical_json(config["task"]))
    return identity(decisive(config, task.digest(), task.files, trained), config["seed"])


# Which source files decide a trial's numbers.

# Where training's numbers go and how they are scored, not where they come from.
_NOT_COUNTED = ("ablations.store", "ablations.tasks.scoring", "ablations.signals", "model.generate")
_JOINT = "model.build"  # which decides how components are joined, and imports all, used or not
# How several seeds, or several devices, train as one: what they import is not all used.
_SHARED = ("ablations.train.pack", "ablations.train.ddp")


@cache
def training_code(frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files that the built model, the task and the trainer come from, and all that they use.

    A component that the trial does not use does not count; one from a user's own module counts
    with its own file.
    """
    from ablations.train.config import OPTIMIZER, SCHEDULE
    from model.init import INIT

    written, train = json.loads(frozen_model), json.loads(frozen_train)
    choices = [(OPTIMIZER, train["optimizer"]), (SCHEDULE, train["schedule"])]
    choices += [(INIT, written["init"])] if "init" in written else []
    roots = set(model_facts(frozen_model, frozen_task).modules)
    roots = {name for name in roots if name.split(".")[0] not in ("torch", "builtins")}
    roots |= {family.component(choice["name"]).__module__ for family, choice in choices}
    roots |= {"ablations.train.loop", "model.init", *task_facts(frozen_task).modules}
    roots = {name for name in roots if not _is_not_counted(name)}
    return stamp(roots, _is_not_counted) | stamp([_JOINT, *_SHARED], lambda _: True)


def _is_not_counted(module: str) -> bool:
    return any(f"{module}.".startswith(f"{name}.") for name in _NOT_COUNTED)


@cache
def source_code(source: str, frozen_model: str, frozen_task: str, frozen_train: str) -> Stamp:
    """The files of an evaluation, probe or benchmark, besides those that training depends on."""
    from ablations.measurement import discover, is_benchmark

    roots = {discover().component(source).__module__, task_facts(frozen_task).module}
    roots |= {"ablations.benchmarks.session"} if is_benchmark(source) else set()
    trained_by = training_code(frozen_model, frozen_task, frozen_train)
    found = stamp(roots, lambda name: name == _JOINT or name.startswith("ablations.store."))
    return {name: digest for name, digest in found.items() if name not in trained_by}


# Components of the user's own: a mistake in one is one line, before anything trains.


def _all_parts_are_ours() -> bool:
    """Whether every registered component is this project's: the user has imported none."""
    from ablations.train.config import OPTIMIZER, SCHEDULE
    from model.build import REGISTRIES

    return all(
        part.__module__.startswith(("model.", "ablations."))
        for family in (*REGISTRIES, TASK, OPTIMIZER, SCHEDULE)
        for part in family.components.values()
    )


@contextlib.contextmanager
def user_code_errors(place: str) -> Iterator[None]:
    """Turn whatever a user's component raises into a ConfigError; an error in ours goes on."""
    try:
        yield
    except ConfigError:
        raise
    except Exception as error:
        if _all_parts_are_ours():
            raise
        said = f"{place}: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError([said.removesuffix(": ")]) from None


def _check_user_model(model: Any, task: TaskFacts) -> None:
    """ConfigError where a module does not say how its weights are initialised, or fails to run.

    Our components are known to run; a user's model is run once on the meta device, for its shapes.
    """
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
