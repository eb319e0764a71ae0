"""The code of a trial counts what its training is made of, a user's own module too."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ablations.plan import code as plan_code
from ablations.plan.resolve import resolve_trial
from ablations.plan.source import FOLDER, read_yaml
from ablations.plan.tree import replaced
from ablations.store import stamp
from ablations.store.identity import freeze
from ablations.train.optimiser import OPTIMISER, SCHEDULE

MODULE = """
from ablations.train.optimiser import OPTIMISER, SCHEDULE, SGD, ConstantRate

@OPTIMISER.register("own")
class OwnOptimiser(SGD):
    factor = 1

@SCHEDULE.register("own")
class OwnSchedule(ConstantRate):
    factor = 1
"""


def forget(*modules: ModuleType) -> None:
    """What a process keeps, since no code changes while it runs."""
    for module in modules:
        for cached in vars(module).values():
            if hasattr(cached, "cache_clear"):
                cached.cache_clear()


def fingerprint(**train: Any) -> Any:
    """The code that decides the numbers of a control with another training."""
    tree = read_yaml(FOLDER / "base/copy.yaml").values
    for option, value in train.items():
        tree = replaced(tree, f"train.{option}", value)
    config = resolve_trial(tree)
    forget(stamp, plan_code)
    return plan_code.code(*(freeze(config[part]) for part in ("model", "task", "train")))


@pytest.fixture
def own_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's own module, which lies in the folder of the test."""
    file = tmp_path / "own_training.py"
    file.write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("own_training")
    yield file
    for family in (OPTIMISER, SCHEDULE):
        del family.parts["own"]
    del sys.modules["own_training"]
    forget(stamp, plan_code)


def test_a_change_of_the_users_own_optimiser_or_schedule_is_other_code(own_training: Path) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"optimiser": {"name": "own"}},
        {"schedule": {"name": "own"}},
    ]
    before = [fingerprint(**case) for case in cases]
    own_training.write_text(MODULE.replace("factor = 1", "factor = 2"))
    after = [fingerprint(**case) for case in cases]
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, False, False]
