"""Every task as its smoke trial has it: base/<task>.yaml, made small by profiles/smoke.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from torch import nn

from ablations.plan.profile import read_profile
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tree import replaced
from ablations.tasks import TASK, Task
from ablations.tasks.task import Budget
from ablations.train.settings import TrainConfig
from model.build import build

BASE, SMOKE = "ablations/base/{}.yaml", "ablations/profiles/smoke.yaml"


@dataclass(frozen=True)
class TaskSubject:
    """A task under examination, and the trial that is made of it."""

    name: str
    config: dict[str, Any]
    """Task, model and training, every value written out."""

    def built(self, **options: Any) -> Task:
        """A task of its own, so that nothing it keeps is another test's; with other options."""
        return TASK.build({**self.config["task"], **options})

    def model(self, task: Task, seed: int = 0, **options: Any) -> nn.Module:
        written = {**self.config["model"], **options}
        return build(written, task.source_size, task.target_size, seed)

    @property
    def budget(self) -> Budget:
        return TrainConfig(**self.config["train"]).budget

    def __str__(self) -> str:
        return self.name


def tree_of(name: str) -> dict[str, Any]:
    """What the two files say of a task, before it is checked."""
    path = FOLDER / "base" / f"{name}.yaml"
    assert path.exists(), f"task {name} has no control: write {BASE.format(name)}"
    smoke = read_profile("smoke").settings.values
    assert name in smoke, f"task {name} has no small size: write its settings in {SMOKE}"
    tree = dict(read_yaml(path).values)
    for path_in_tree, value in smoke[name].items():
        tree = replaced(tree, path_in_tree, value)
    return tree


@cache
def task_subject(name: str) -> TaskSubject:
    return TaskSubject(name, resolve_trial(tree_of(name)))
