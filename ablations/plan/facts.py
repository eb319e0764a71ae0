"""What a plan must know of tasks and models: read from the data or built once a process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from ablations.plan.own_parts import one_line_of_own_parts
from ablations.store.identity import decisive, freeze, identity
from ablations.store.stamp import is_counted
from ablations.tasks import TASK
from ablations.tasks.cache import load_task


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
    with one_line_of_own_parts("task"):
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
    from ablations.plan.resolve import model_on_meta
    from model.flops import parameters

    model = model_on_meta(frozen_model, frozen_task)
    modules = sorted({type(module).__module__ for module in model.modules()})
    return ModelFacts(parameters(model), modules)


@cache
def cost_facts(frozen_model: str, frozen_task: str) -> CostFacts:
    """Counted by running the model on the meta device: too slow for a plan of many models, so it
    waits until a trial is sent to a worker, or is compared with another."""
    import torch

    from ablations.plan.resolve import model_on_meta
    from model.flops import count

    model, task = model_on_meta(frozen_model, frozen_task), task_facts(frozen_task)
    source_length = None if task.source_size is None else task.longest
    with torch.device("meta"):
        cost = count(model, source_length, task.longest)
    return CostFacts(cost.flops_per_token, cost.kept_bytes / cost.tokens)


def decisive_parts(config: Mapping[str, Any], trained: bool = True) -> dict[str, str]:
    """What decides a trial's numbers besides its seed, with what is known of its task's data."""
    digest = task_facts(freeze(config["task"])).digest
    return decisive(config, digest, TASK.part(config["task"]["name"]).files, trained)


def identity_of(config: Mapping[str, Any], trained: bool = True) -> str:
    """The id by the data itself, which is read: nothing that was known before counts."""
    task = load_task(freeze(config["task"]))
    return identity(decisive(config, task.digest(), task.files, trained), config["seed"])
