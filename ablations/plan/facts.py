"""What a plan must know of tasks and models: read from the data or built once, then remembered."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, TypeVar

from ablations.plan.memory import is_ours, memory
from ablations.plan.own_parts import one_line_of_own_parts
from ablations.store.stamp import is_counted
from ablations.tasks.cache import load_task

Fact = TypeVar("Fact", "TaskFacts", "ModelFacts", "CostFacts")


@dataclass(frozen=True)
class TaskFacts:
    """A task, without its data."""

    digest: str
    kind: str
    per: str
    source_size: int | None
    target_size: int
    longest: int
    validated: int
    """Tokens that a look at validation reads, about."""
    module: str
    modules: list[str]
    """Where it and what it holds come from: ours and the user's."""


@dataclass(frozen=True)
class ModelFacts:
    """A model that fits its task, without its weights."""

    parameters: int
    modules: list[str]
    """Where its pieces come from."""


@dataclass(frozen=True)
class CostFacts:
    """What a model does with a token of its task's longest sequences."""

    flops_per_token: float
    kept_bytes: float
    """For the backward pass on a CPU."""


@cache
def task_facts(frozen_task: str) -> TaskFacts:
    """ConfigError where there is no such task."""

    def read() -> TaskFacts:
        with one_line_of_own_parts("task"):
            return of_task(load_task(frozen_task))

    def of_task(task: Any) -> TaskFacts:
        held = {type(part).__module__ for part in (task, *vars(task).values())}
        return TaskFacts(
            task.digest(),
            task.kind,
            task.per,
            task.source_size,
            task.target_size,
            task.longest,
            _validated(task),
            type(task).__module__,
            sorted(filter(is_counted, held)),
        )

    return _remembered(TaskFacts, frozen_task, frozen_task, read)


def _validated(task: Any) -> int:
    card = task.card()
    if isinstance(tokens := card.get("tokens"), dict):
        return int(tokens.get("valid", 0))
    size = card.get("size")
    return int(size.get("valid", 0)) * task.longest if isinstance(size, dict) else 0


@cache
def model_facts(frozen_model: str, frozen_task: str) -> ModelFacts:
    """ConfigError where the model cannot be built, or does not fit its task."""

    def build() -> ModelFacts:
        from ablations.plan.resolve import model_on_meta
        from model.count import parameters

        model = model_on_meta(frozen_model, frozen_task)
        modules = sorted({type(module).__module__ for module in model.modules()})
        return ModelFacts(parameters(model), modules)

    return _remembered(ModelFacts, f"{frozen_model}\n{frozen_task}", frozen_task, build)


@cache
def cost_facts(frozen_model: str, frozen_task: str) -> CostFacts:
    def count() -> CostFacts:
        import torch

        from ablations.plan.resolve import model_on_meta
        from model.count import count

        model, task = model_on_meta(frozen_model, frozen_task), task_facts(frozen_task)
        source_length = None if task.source_size is None else task.longest
        with torch.device("meta"):
            cost = count(model, source_length, task.longest)
        return CostFacts(cost.flops_per_token, cost.kept_bytes / cost.tokens)

    return _remembered(CostFacts, f"{frozen_model}\n{frozen_task}", frozen_task, count)


def _remembered(kind: type[Fact], key: str, frozen_task: str, work_out: Callable[[], Fact]) -> Fact:
    if not (is_ours() and has_our_data(frozen_task)):
        return work_out()
    known = memory().recall(kind.__name__, key)
    if known is not None:
        with contextlib.suppress(TypeError):  # not what was kept
            return kind(**known)
    fact = work_out()
    memory().note(kind.__name__, key, asdict(fact))
    return fact


def has_our_data(frozen_task: str) -> bool:
    """Whether a task reads no file of the user's."""
    from ablations.tasks import TASK

    task = json.loads(frozen_task)
    part = TASK.parts.get(task.get("name"))
    return part is not None and not any(task.get(name) for name in part.files)
