"""Every task as its smoke trial has it: base/<task>.yaml, made small by profiles/smoke.yaml."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from torch import nn

from ablations.config import FOLDER, override, read_yaml, resolve_trial
from ablations.spec import read_profile
from ablations.tasks import TASK, Task
from ablations.train.config import TrainConfig
from model.build import build

SMOKE = "ablations/profiles/smoke.yaml"

REPEATED = {"translation": 0.03}
"""Task → the share of asked examples that may be taught too: passages that stand in two books."""

OWN_FILES: dict[str, dict[str, str]] = {
    "g2p": {"train": "tea\tT IY\nate\tEY T\n", "valid": "eat\tIY T\n", "test": "tee\tT IY\n"},
    "text": {"file": "one line\nand another\nthe last line\n"},
    "translation": {
        f"{split}_{side}": f"{word} he goes away\n{word} she stays here\n"
        for split in ("train", "valid", "test")
        for side, word in (("source", "lo"), ("target", "see"))
    },
}
"""Task → option → what a user's own file could say, for tasks whose options name files."""
WITH_OWN_FILES: dict[str, dict[str, Any]] = {"translation": {"tokens": {"name": "words"}}}
"""Further options without which such small files would not do."""


@dataclass(frozen=True)
class TaskSubject:
    """A task under examination, and the trial that is made of it."""

    name: str
    config: dict[str, Any]
    """Task, model and training, every value written out."""

    def built(self, **options: Any) -> Task:
        """A task of its own, so that nothing it keeps is another test's; with other options."""
        return TASK.build({**self.config["task"], **options})

    def model(self, task: Task, **options: Any) -> nn.Module:
        written = {**self.config["model"], **options}
        return build(written, task.source_size, task.target_size, seed=0)

    @property
    def settings(self) -> TrainConfig:
        return TrainConfig(**self.config["train"])

    @cached_property
    def task(self) -> Task:
        """One for all checks that only look."""
        return self.built()

    def __str__(self) -> str:
        return self.name


def tree_of(name: str) -> dict[str, Any]:
    """What the two files say of a task, before it is checked."""
    file = FOLDER / "base" / f"{name}.yaml"
    assert file.exists(), f"task {name} has no control: write ablations/base/{name}.yaml"
    smoke = read_profile("smoke").settings.values
    assert name in smoke, f"task {name} has no small size: write its settings in {SMOKE}"
    return override(read_yaml(file).values, smoke[name])


@cache
def task_subject(name: str) -> TaskSubject:
    return TaskSubject(name, resolve_trial(tree_of(name)))


def failures(checks: Sequence[Callable[[Any], None]], subject: Any) -> list[str]:
    """What each failing check says."""
    found = []
    for check in checks:
        try:
            check(subject)
        except AssertionError as error:
            found.append(f"{check.__name__}: {error}")
    return found
